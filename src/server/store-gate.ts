/** The gate of requests that arrive before the store is open. */
export interface StoreGate {
  /** Pending while the port is open and the store is not. Rejects with a 503 if the store cannot be opened. */
  opening: Promise<unknown> | undefined;
}
