import { join } from "node:path";

/** The file that is there once an execution was mended. It outlives the process. */
export const toMendedFile = (folder: string, executionId: string): string => join(folder, `mended-${executionId}`);
