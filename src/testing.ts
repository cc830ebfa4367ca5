// Servers and time for tests
export { createServer, type TestServer, type TestServerOptions } from "./testing/server.ts";
export { createClock, type ClockOptions, type TestClock } from "./testing/clock.ts";
export type { Clock, ClockTimer } from "./core/clock.ts";
export type { LogRecord } from "./observability/record.ts";
export type { LogIds } from "./core/scope.ts";
