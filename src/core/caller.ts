/** Who is calling, as the authentication provider said. */
export interface Caller {
  readonly user: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
}
