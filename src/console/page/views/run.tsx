/** Not built yet. */
export function Run(_: { workflowId: string; executionId: string }) {
  return <h1>Run</h1>;
}
