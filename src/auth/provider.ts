/** Whom a server believes. `jwtAuth()` makes one; yours may ask whatever you have: sessions, API keys, another service. */
export interface AuthProvider extends AccessOptions {
  /** A name for it, such as `"session"`. */
  readonly type: string;
  /**
   * The user behind a token, as plain JSON: its `id` becomes `userId`. Throws when the token is no good: the caller gets 401
   * `Invalid token: <message>`, or `Token expired` for an error whose `code` is `"ERR_JWT_EXPIRED"`. It has 5 seconds.
   */
  verifyToken(token: string, request?: Request): object | Promise<object>;
  /** Where the token is: a cookie, a query parameter. @default the header `Authorization: Bearer <token>` */
  extractToken?(request: Request): string | null | undefined;
}

/** Which requests need a caller. Routes are written `"<METHOD or ALL> <path>"`; a `*` at the end matches any remainder. */
export interface AccessOptions {
  /** Whether every route needs a caller, custom ones too, but for `publicRoutes`. @default false */
  readonly defaultPrivate?: boolean | undefined;
  /** Routes that need no caller, in either mode: `"GET /health"`, `"POST /hooks/*"`. */
  readonly publicRoutes?: readonly string[] | undefined;
  /** Routes that need a caller besides those that do by themselves: `"GET /reports/*"`. */
  readonly protect?: readonly string[] | undefined;
  /** Whether WebSockets need a caller, too. @default false */
  readonly webSockets?: boolean | undefined;
  /** Whether an execution is there only for the user who began it. @default false */
  readonly ownership?: boolean | undefined;
}
