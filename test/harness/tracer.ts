import type { Tracer } from "../../src/core/trace.ts";

/** Nobody listens. */
export const noTracer: Tracer = { isOn: () => false, start: () => undefined };
