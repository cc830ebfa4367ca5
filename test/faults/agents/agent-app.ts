import { join } from "node:path";
import { loadSdk } from "../../../src/agents/sdk.ts";
import { embedded, type Config } from "../../../src/index.ts";
import { createLog, type CreateHosted } from "../../harness/hosted.ts";

await loadSdk();

interface Life<Line> {
  readonly folder: string;
  readonly life: number;
  /** Adds a line to the log. */
  tell(line: Omit<Line, "life">): void;
}

/** Serves a config on the file of a folder. Each line of its log has the number of the life. */
export const serveOnFile =
  <Line>(toConfig: (life: Life<Line>) => Config): CreateHosted =>
  ({ folder, life }: { folder: string; life: number }) => {
    const write = createLog(folder);
    const config = toConfig({ folder, life, tell: (line) => write(JSON.stringify({ ...line, life })) });
    return { config: { ...config, backend: embedded({ path: join(folder, "data.db") }) } };
  };
