/**
 * How long a test waits for something before it fails. A safety net, not an expectation: a machine may be that busy.
 */
export const patienceMs = 45_000;

/** For a time-out that the server must not wait for: were it to wait, the test would fail by its own. */
export const neverMs = 3_600_000;

/** Time limits for calls to Restate, for tests that are not about them. */
export const patientTimeouts: { readMs: number; writeMs: number } = { readMs: patienceMs, writeMs: patienceMs };
