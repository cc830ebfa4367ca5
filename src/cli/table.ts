/** Colors a cell after it was padded. */
export type PaintCell = (padded: string, column: number, cells: readonly string[]) => string;

/** Returns the lines of a table, the head first, with columns as wide as their longest cell. */
export function toLines(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  paint: PaintCell = (padded) => padded,
): string[] {
  const widths = head.map((name, at) => rows.reduce((max, row) => Math.max(max, row[at]!.length), name.length));
  return [head, ...rows].map((cells, line) =>
    cells
      .map((cell, at) => (at === cells.length - 1 ? cell : cell.padEnd(widths[at]!)))
      .map((padded, at) => (line === 0 ? padded : paint(padded, at, cells)))
      .join("  ")
      .trimEnd(),
  );
}
