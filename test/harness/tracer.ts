import type { Tracer } from "../../src/core/trace.ts";

/** A tracer without listeners. */
export const noTracer: Tracer = { isOn: () => false, start: () => undefined };
