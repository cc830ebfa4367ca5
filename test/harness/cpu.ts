/**
 * Returns the processor time of this thread that a function takes, in milliseconds. A measure of work: unlike the time on
 * the clock, it does not grow when other processes use the machine.
 */
export function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** The same for a function that waits. Everything that this thread does meanwhile counts. */
export async function cpuMsUntil(work: () => Promise<unknown>): Promise<number> {
  const before = process.threadCpuUsage();
  await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
