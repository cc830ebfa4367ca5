import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * The link that signs in to the console, and the sessions that were opened with it.
 *
 * S1 A link opens one session. Its use makes the next link.
 * S2 Tokens have 128 random bits. They are compared by their hashes, in constant time.
 * S3 Nothing is stored or logged: all tokens end with the process.
 */
export class ConsoleSessions {
  #link = newToken();
  /** The hashes of the session tokens, oldest first. */
  readonly #sessions: Buffer[] = [];
  #isOpen = true;
  #onUse: () => void = () => {};

  /** The token of the current link. Undefined if this server has no link. */
  get link(): string | undefined {
    return this.#isOpen ? this.#link : undefined;
  }

  /** Registers the callback for the use of a link. There is another link by then. */
  onUse(callback: () => void): void {
    this.#onUse = callback;
  }

  /** Returns a new session token for the token of the link. Undefined if that one is wrong or was used before. */
  exchange(token: string): string | undefined {
    if (!this.#isOpen || !timingSafeEqual(hash(token), hash(this.#link))) return undefined;
    this.#link = newToken();
    const session = newToken();
    this.#sessions.push(hash(session));
    if (this.#sessions.length > maxSessions) this.#sessions.shift();
    this.#onUse();
    return session;
  }

  /** Returns true for the token of a session. */
  has(token: string): boolean {
    const hashed = hash(token);
    let isKnown = false;
    for (const sessionHash of this.#sessions) isKnown = timingSafeEqual(sessionHash, hashed) || isKnown;
    return isKnown;
  }

  /** Ends all sessions. No link works afterwards. */
  close(): void {
    this.#isOpen = false;
    this.#sessions.length = 0;
  }
}

/** Max sessions at a time. The oldest one ends when there are more. */
const maxSessions = 100;

const newToken = (): string => randomBytes(16).toString("base64url");
const hash = (token: string): Buffer => createHash("sha256").update(token).digest();

/** The form of our tokens, so that others are not hashed. */
export const isTokenLike = (token: string): boolean => /^[\w-]{22}$/.test(token);
