/** Every bound of the server that a config may move. */
export interface Limits {
  /** Largest request body. Answer: 413. */
  bodyBytes: number;
  /** Deepest nesting of a JSON body. Answer: 400. */
  jsonDepth: number;
  /** Open event streams. Answer: 503. */
  sseStreams: number;
  /** How long a reader may take nothing while an event waits for it. Then it is cut. */
  sseStallMs: number;
  /** Open WebSockets. Answer: 503. */
  sockets: number;
  /** Largest WebSocket message. Answer: close code 1009. */
  socketMessageBytes: number;
  /** What may wait for a WebSocket reader. Then it is cut. */
  socketBufferBytes: number;
  /** How long a request's headers may take to arrive, in `start`. Answer: 408. */
  headersMs: number;
  /** How long a whole request may take to arrive, in `start`. Answer: 408. */
  requestMs: number;
  /** How long open requests may still run after SIGTERM. */
  drainMs: number;
}

export const defaultLimits: Limits = {
  bodyBytes: 2_097_152,
  jsonDepth: 100,
  sseStreams: 5_000,
  sseStallMs: 30_000,
  sockets: 2_000,
  socketMessageBytes: 65_536,
  socketBufferBytes: 1_048_576,
  headersMs: 10_000,
  requestMs: 30_000,
  drainMs: 10_000,
};
