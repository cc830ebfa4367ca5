/** The limits of the server, with their defaults. A config can override each of them. */
export const defaultLimits = {
  /** The largest request body. Exceeded: 413. @default 2097152 */
  bodyBytes: 2_097_152,
  /**
   * The largest body of `chat`, `text` and `stream` of an agent. Exceeded: 413. All of it beside its long strings, such as
   * files, is still limited by `bodyBytes`. @default 26214400
   */
  chatBodyBytes: 26_214_400,
  /**
   * Max heap bytes for request bodies in flight, and for stored conversations in prompts. A body over 16 KiB counts five times
   * its size until its response and its agent call are complete, and its execution is complete or suspended. So do the messages
   * of a conversation until their call is complete. One request is always admitted. Exceeded: 503; calls inside workflows wait.
   * 0 means a quarter of the heap limit. @default 0
   */
  inFlightBytes: 0,
  /** Max executions that run at the same time. Further ones are queued. @default 256 */
  runningExecutions: 256,
  /** Max executions in the queue. Exceeded: 503. @default 1024 */
  queuedExecutions: 1_024,
  /** The time limit of a step attempt, which then fails. 0 means no limit. @default 900000 */
  stepTimeoutMs: 900_000,
  /**
   * Max events that are kept for `andWaitFor`: one half for events from code, the other for events from callers, and a tenth of
   * the whole per user. Exceeded: 503. @default 100000
   */
  storedEvents: 100_000,
  /** Max agent calls at the same time, without those inside workflows. Exceeded: 503. @default 2000 */
  agentCalls: 2_000,
  /**
   * Max bytes of a stored conversation that a model is shown, as JSON. Exceeded: the oldest messages are left out, with
   * a warning. The last message is always shown. @default 33554432
   */
  conversationBytes: 33_554_432,
  /**
   * Max turns of conversations that continue without a client, and 5 of each user. Exceeded: a turn whose client
   * disconnects is aborted, and `respond-async` gets 503. @default 200
   */
  detachedTurns: 200,
  /**
   * The time limit of a model for the first byte of a streamed answer, or for a whole answer without streaming. Exceeded: 504.
   * @default 60000
   */
  modelFirstByteMs: 60_000,
  /** The longest pause in a streamed answer of a model. Exceeded: the stream ends with an error. @default 60000 */
  modelGapMs: 60_000,
  /** The largest value of a step, as JSON. Exceeded: the step fails. @default 4194304 */
  stepValueBytes: 4_194_304,
  /** Max bytes of an execution: its input and all step values, as JSON. Exceeded: the step fails. @default 67108864 */
  executionBytes: 67_108_864,
  /**
   * Max bytes of the data file and its log. Exceeded: new executions and turns get 507. 0 means no limit. @default 0
   */
  storeBytes: 0,
  /**
   * Min free space on the disk of the data file, in bytes. Below it: new executions and turns get 507. 0 means no
   * limit. @default 268435456
   */
  storeFreeBytes: 268_435_456,
  /** Max open event streams. Exceeded: 503. @default 5000 */
  sseStreams: 5_000,
  /** Max open `GET …/stream` streams per user, or else per address, as `rateLimit` counts. Exceeded: 429. @default 100 */
  sseStreamsPerCaller: 100,
  /** Max open WebSockets. Exceeded: 503. @default 2000 */
  sockets: 2_000,
  /** The time limit to receive a whole request, in `start`. Exceeded: 408. @default 30000 */
  requestMs: 30_000,
  /** Max open connections. Further ones are closed. @default 10000 */
  maxConnections: 10_000,
  /** The time after SIGTERM in which `start` serves as before while `/ready` is 503. @default 1000 */
  drainNoticeMs: 1_000,
  /** The time that open requests and running steps get to finish after `drainNoticeMs`. @default 10000 */
  drainMs: 10_000,
};
/** The limits of the server. Sizes are in bytes, times in milliseconds. */
export type Limits = typeof defaultLimits;

/** Bounds without a setting. `docs/internals/constants.md` has the same table. */
export const constants = {
  /** The deepest nesting of a JSON body. Exceeded: 400. */
  jsonDepth: 100,
  /** Max executions that wait for the `concurrency` of their workflow. Exceeded: 503. */
  waitingExecutions: 100_000,
  /** Max items of one `andForEach`. Exceeded: the step fails. */
  loopItems: 100_000,
  /** Max items of one `andForEach` that are in progress at the same time. */
  loopConcurrency: 1_000,
  /** The longest sleep during which an execution stays running. A longer one suspends it. */
  inlineSleepMs: 5_000,
  /** The largest JSON Schema that a client may send. Exceeded: 400. */
  schemaBytes: 65_536,
  /** The deepest nesting of such a schema. Exceeded: 400. */
  schemaDepth: 32,
  /** The limit of CPU time to check such a schema, or a value against it. Exceeded: 400. */
  schemaMs: 250,
  /** Max bytes to buffer for a reader of events. Exceeded: lifecycle events are read from the journal again, others are lost. */
  sseBufferBytes: 1_048_576,
  /** The time after which a reader with an unread event is disconnected. */
  sseStallMs: 30_000,
  /** The largest WebSocket message. Exceeded: close code 1009. */
  socketMessageBytes: 65_536,
  /** Max bytes to buffer for a WebSocket. Exceeded: it is disconnected. */
  socketBufferBytes: 1_048_576,
  /** Max log records to keep. The oldest are dropped. */
  logRecords: 10_000,
  /** Max bytes of log records to keep, as JSON. The oldest are dropped. */
  logBytes: 16_777_216,
  /** The time limit to receive the headers of a request, in `start`. Exceeded: 408. */
  headersMs: 10_000,
  /** The time after which a response is cut if the client takes no byte of it. */
  responseStallMs: 30_000,
};
export type Constants = typeof constants;

/** Everything that bounds the server: the limits of its config, and the constants. */
export interface Bounds extends Limits, Constants {}

/** The key of a config under which our own tests set constants. Users cannot rely on it. */
export const constantsKey: unique symbol = Symbol.for("agentserve.constants");

/** Returns the former limits that `server.limits` still sets. */
export function findFormerLimits(limits: unknown): (keyof Constants)[] {
  if (typeof limits !== "object" || limits === null) return [];
  return Object.entries(limits).flatMap(([name, value]) => (value !== undefined && isConstant(name) ? [name] : []));
}

const isConstant = (name: string): name is keyof Constants => Object.hasOwn(constants, name);

/** The message about a former limit: a warning in `dev`, an error in `start`. */
export const explainFormerLimit = (name: keyof Constants): { message: string; hint: string } => ({
  message: `server.limits.${name} is a constant now: ${constants[name]}`,
  hint: "remove it from the config",
});
