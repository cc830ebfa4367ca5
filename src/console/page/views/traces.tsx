/** Not built yet. */
export function Traces() {
  return <h1>Traces</h1>;
}
