import { signal } from "@preact/signals";
import { place } from "./place.ts";
import { signInState } from "./session.ts";

const storageKey = "agentserve.user";
const chosen = signal(localStorage.getItem(storageKey) ?? "");

/** Returns true if the page may act as any user: without an authentication provider, a request names its user itself. */
export const canChooseUser = (): boolean => signInState.value.type === "open" && !signInState.value.session.auth;

/** Returns the user that the page acts as. Undefined if none was chosen, or a token decides. */
export const actingUser = (): string | undefined => (canChooseUser() && chosen.value !== "" ? chosen.value : undefined);

/** Returns the user of the open conversation: named by the address, or the acting user. */
export const conversationUser = (): string | undefined => place.value.query.get("user") ?? actingUser();

/** Acts as a user from now on, also after a reload. An empty text: as none. */
export function actAs(userId: string): void {
  chosen.value = userId;
  if (userId === "") localStorage.removeItem(storageKey);
  else localStorage.setItem(storageKey, userId);
}
