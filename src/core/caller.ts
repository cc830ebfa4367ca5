/** Who is calling, as the authentication provider said. */
export interface Caller {
  readonly user: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
}

/** Who asks, as far as this server knows. */
export interface Identity {
  /** Whether there is a provider. Then nothing counts that a client says about itself; without one that is all there is. */
  readonly checked: boolean;
  /** Whether an execution is there only for the user who began it. */
  readonly ownership: boolean;
  /** Undefined for whoever is not, or cannot be, authenticated. */
  readonly caller: Caller | undefined;
}

export const unchecked: Identity = { checked: false, ownership: false, caller: undefined };
