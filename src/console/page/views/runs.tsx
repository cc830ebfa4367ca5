/** Not built yet. */
export function Runs() {
  return <h1>Runs</h1>;
}
