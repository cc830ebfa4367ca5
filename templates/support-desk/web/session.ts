/** The user who is signed in. It is kept until the tab is closed. */
export interface Session {
  readonly token: string;
  readonly name: string;
  readonly role: "customer" | "manager";
}

export function readSession(): Session | undefined {
  const stored = sessionStorage.getItem("session");
  return stored === null ? undefined : (JSON.parse(stored) as Session);
}

export function storeSession(session: Session | undefined): void {
  if (session) sessionStorage.setItem("session", JSON.stringify(session));
  else sessionStorage.removeItem("session");
}

/** Returns the header that tells the server who the user is. */
export const toHeaders = (): Record<string, string> => ({ authorization: `Bearer ${readSession()?.token}` });
