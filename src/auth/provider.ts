/** Authenticates callers. Made by `jwtAuth()`, or your own for sessions, API keys or another service. */
export interface AuthProvider extends AccessOptions {
  /** A name for the provider, such as `"session"`. */
  readonly type: string;
  /**
   * Returns the user of a token as plain JSON. The `id` of the user becomes `userId`. Throws if the token is invalid:
   * the caller gets 401 `Invalid token: <message>`, or `Token expired` for an error with the `code`
   * `"ERR_JWT_EXPIRED"`. The time limit is 5 seconds.
   */
  verifyToken(token: string, request?: Request): object | Promise<object>;
  /**
   * Reads the token from a request, for example from a cookie. No other place is read then, not even for a WebSocket.
   * @default the header `Authorization: Bearer <token>`; for a WebSocket also the subprotocol and `?token=`
   */
  extractToken?(request: Request): string | null | undefined;
}

/** Rules that require a caller. A route is written `"<METHOD or ALL> <path>"`. A final `*` matches any remainder. */
export interface AccessOptions {
  /** True to require a caller for every route, including custom ones, except `publicRoutes`. @default false */
  readonly defaultPrivate?: boolean | undefined;
  /** Routes that do not require a caller, in either mode: `"GET /health"`, `"POST /hooks/*"`. @default [] */
  readonly publicRoutes?: readonly string[] | undefined;
  /** Routes that require a caller, besides the default ones: `"GET /reports/*"`. @default [] */
  readonly protect?: readonly string[] | undefined;
  /** True to require a caller for WebSockets. @default false */
  readonly webSockets?: boolean | undefined;
  /** True to make an execution visible only to the user who started it. @default false */
  readonly ownership?: boolean | undefined;
}
