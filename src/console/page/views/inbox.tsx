/** Not built yet. */
export function Inbox() {
  return <h1>Inbox</h1>;
}
