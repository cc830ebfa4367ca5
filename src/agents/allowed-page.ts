/** Max rows of one page that `authorize` is asked about: in all, and at the same time. */
const maxAsked = 1_000;
const atOnce = 200;

interface PageOptions<Row> {
  readonly limit: number;
  /** The cursor after which the page begins. */
  readonly after?: string | undefined;
  /** True if `isAllowed` asks `authorize`. */
  readonly hasAuthorize: boolean;
  read(after: string | undefined, limit: number): Promise<{ readonly rows: readonly Row[]; readonly hasMore: boolean }>;
  isAllowed(row: Row): boolean | Promise<boolean>;
}
export interface AllowedPage<Row> {
  readonly rows: readonly Row[];
  /** The cursor of the next page. Undefined on the last one. */
  readonly next: string | undefined;
}

/** Reads a page without the rows that are not allowed: it may be shorter than its limit and have a next one. */
export async function readAllowed<Row extends { readonly cursor: string }>(
  options: PageOptions<Row>,
): Promise<AllowedPage<Row>> {
  const { limit, hasAuthorize, read, isAllowed } = options;
  const rows: Row[] = [];
  let { after } = options;
  for (let asked = 0; ;) {
    const size = hasAuthorize && asked > 0 ? Math.min(atOnce, maxAsked - asked) : limit;
    const page = await read(after, size);
    const allowed = await Promise.all(page.rows.map(isAllowed));
    for (const [index, row] of page.rows.entries()) {
      if (rows.length === limit) return { rows, next: after };
      after = row.cursor;
      if (allowed[index]) rows.push(row);
    }
    asked += page.rows.length;
    if (!page.hasMore) return { rows, next: undefined };
    if (rows.length === limit || asked >= maxAsked) return { rows, next: after };
  }
}

/** Converts a store cursor to `nextCursor`, and back. */
export const toNextCursor = (next: string | undefined): string | null =>
  next === undefined ? null : Buffer.from(next).toString("base64url");
export const fromCursor = (cursor: string | undefined): string | undefined =>
  cursor === undefined ? undefined : Buffer.from(cursor, "base64url").toString();
