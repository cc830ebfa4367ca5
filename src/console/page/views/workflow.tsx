/** Not built yet. */
export function Workflow(_: { id: string }) {
  return <h1>Workflow</h1>;
}
