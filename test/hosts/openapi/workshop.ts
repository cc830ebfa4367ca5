import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { installHost } from "../install-host.ts";

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
/** A project folder in which the tools of `test/hosts/openapi` are installed. */
export interface Workshop {
  readonly folder: string;
  write(file: string, text: string): void;
  /** Runs a command of a package, as `npx` would. */
  run(command: string, ...args: string[]): Promise<Output>;
  close(): void;
}

export function createWorkshop(): Workshop {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-openapi-"));
  symlinkSync(join(installHost("openapi"), "node_modules"), join(folder, "node_modules"));
  function write(file: string, text: string): void {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  write("package.json", JSON.stringify({ type: "module" }));
  write("tsconfig.json", JSON.stringify({ compilerOptions }));
  return {
    folder,
    write,
    async run(command, ...args) {
      const path = command === "node" ? process.execPath : join(folder, "node_modules/.bin", command);
      const options = { cwd: folder, env: { ...process.env, ...quiet }, maxBuffer: 1e8 };
      const running = promisify(execFile)(path, args, options);
      return running.then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
      );
    },
    close: () => rmSync(folder, { recursive: true }),
  };
}

const compilerOptions = {
  strict: true,
  target: "es2022",
  module: "nodenext",
  lib: ["es2023", "dom", "dom.iterable"],
  types: [],
  outDir: "built",
};
const quiet = { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1", FORCE_COLOR: "0" };
