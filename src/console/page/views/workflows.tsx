/** Not built yet. */
export function Workflows() {
  return <h1>Workflows</h1>;
}
