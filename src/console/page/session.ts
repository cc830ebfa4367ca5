import { signal } from "@preact/signals";
import { ApiError, ask, useToken, whenRefused } from "./server/api.ts";

/** The user of the page, and what they may do. */
export interface Session {
  readonly user: { readonly id: string } | null;
  readonly canAct: boolean;
  readonly readOnly: boolean;
  readonly mode: "dev" | "start";
  readonly version: string;
  readonly isSignedInByLink: boolean;
  /** True if the server has an authentication provider. */
  readonly auth: boolean;
}
type SignIn =
  | { readonly type: "opening" }
  | { readonly type: "open"; readonly session: Session }
  /** A token is needed. */
  | { readonly type: "closed"; readonly reason: string | undefined }
  /** The caller may not use the console, or the server cannot be reached. */
  | { readonly type: "failed"; readonly error: ApiError };

export const signInState = signal<SignIn>({ type: "opening" });
/** True if the user may change something from the page. */
export const canAct = (): boolean => signInState.value.type === "open" && signInState.value.session.canAct;

/** Returns the reason why the user cannot change anything, as a title of a disabled button. Undefined: they can. */
export function whyNot(): string | undefined {
  if (canAct()) return undefined;
  const state = signInState.value;
  return state.type === "open" && state.session.readOnly
    ? "The console is read-only"
    : "You may look, but not act, in the console";
}

const stored = "agentserve.token";

/** Signs in with the token of the link, or with the one of this tab, or without one. */
export async function signIn(): Promise<void> {
  const link = /^#t=([\w-]+)$/.exec(location.hash)?.[1];
  if (link !== undefined) history.replaceState(null, "", location.pathname + location.search);
  let reason: string | undefined;
  if (link !== undefined) {
    try {
      const { token } = await ask<{ token: string }>("/console/api/session", { body: { token: link } });
      sessionStorage.setItem(stored, token);
    } catch (error) {
      reason = toApiError(error).message;
    }
  }
  await open(sessionStorage.getItem(stored) ?? undefined, reason);
}

/** Signs in with a token that the user has pasted. */
export async function useTokenOf(token: string): Promise<void> {
  sessionStorage.setItem(stored, token);
  await open(token, undefined);
}

export async function signOut(): Promise<void> {
  sessionStorage.removeItem(stored);
  await open(undefined, undefined);
}

whenRefused((message) => {
  if (signInState.value.type !== "open") return;
  const { isSignedInByLink } = signInState.value.session;
  sessionStorage.removeItem(stored);
  useToken(undefined);
  const reason = isSignedInByLink ? "The server was started again: open the newest link that it has printed" : message;
  signInState.value = { type: "closed", reason };
});

async function open(token: string | undefined, reason: string | undefined): Promise<void> {
  useToken(token);
  try {
    signInState.value = { type: "open", session: await ask<Session>("/console/session") };
  } catch (caught) {
    const error = toApiError(caught);
    if (error.status !== 401) return void (signInState.value = { type: "failed", error });
    useToken(undefined);
    sessionStorage.removeItem(stored);
    signInState.value = { type: "closed", reason: reason ?? (token === undefined ? undefined : error.message) };
  }
}

export const toApiError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(0, error instanceof Error ? error.message : String(error));
