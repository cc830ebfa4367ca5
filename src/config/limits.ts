/** Every bound of the server that a config may move, with its default. */
export const defaultLimits = {
  /** Largest request body. Answer: 413. */
  bodyBytes: 2_097_152,
  /** Deepest nesting of a JSON body. Answer: 400. */
  jsonDepth: 100,
  /** Executions that run at once. More wait for their turn. */
  runningExecutions: 256,
  /** Executions that wait for their turn. Answer to more: 503. */
  queuedExecutions: 1_024,
  /** How long one attempt of a step may take; 0 is for ever. Then the attempt fails. */
  stepTimeoutMs: 900_000,
  /** Calls of agents at once, those inside workflows not counted. Answer to more: 503. */
  agentCalls: 2_000,
  /** How long a model may take until it begins to answer, or until the whole answer where it is not streamed. Answer: 504. */
  modelFirstByteMs: 60_000,
  /** How long a model may be silent in the middle of a streamed answer. Then the stream ends with an error. */
  modelGapMs: 60_000,
  /** Largest JSON Schema that a client may send. Answer: 400. */
  schemaBytes: 65_536,
  /** Deepest nesting of such a schema. Answer: 400. */
  schemaDepth: 32,
  /** How long checking such a schema, or a value against it, may take. Answer: 400. */
  schemaMs: 250,
  /** Largest value of a step, as JSON. A step that returns more fails. */
  stepValueBytes: 4_194_304,
  /** Open event streams. Answer: 503. */
  sseStreams: 5_000,
  /** What may wait for a reader of events. Then lifecycle events are read from the journal again, others are lost. */
  sseBufferBytes: 1_048_576,
  /** How long a reader may take nothing while an event waits for it. Then it is cut. */
  sseStallMs: 30_000,
  /** Open WebSockets. Answer: 503. */
  sockets: 2_000,
  /** Largest WebSocket message. Answer: close code 1009. */
  socketMessageBytes: 65_536,
  /** What may wait for a WebSocket reader. Then it is cut. */
  socketBufferBytes: 1_048_576,
  /** Records of the log that are kept for its readers. The oldest leave. */
  logRecords: 10_000,
  /** How much the kept records may take, as JSON. */
  logBytes: 16_777_216,
  /** How long a request's headers may take to arrive, in `start`. Answer: 408. */
  headersMs: 10_000,
  /** How long a whole request may take to arrive, in `start`. Answer: 408. */
  requestMs: 30_000,
  /** How long open requests may still run after SIGTERM. */
  drainMs: 10_000,
};
export type Limits = typeof defaultLimits;
