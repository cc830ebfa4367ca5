import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { bin } from "../../harness/cli.ts";
import { createProject } from "../../harness/project.ts";
import { curl, sqlite3 } from "./stand-ins.ts";

/** For those examples that want a `JWT_SECRET`; without one, the starter asks nobody who they are. */
export const secret = "a secret of at least thirty-two bytes";

/** What a reader has who tries the examples: this package installed, and commands on the PATH. */
export interface Tools {
  /** With `npx agentserve` as built, and an `npm` that installs without a network. */
  readonly env: NodeJS.ProcessEnv;
  /** Which of the commands stand in for real ones that this machine has not. */
  readonly replaced: readonly string[];
  /** A folder with these files and all packages, until the test is over. */
  project(files: Record<string, string>): string;
  /** What a browser was asked to show. */
  shown(): string;
  close(): void;
}

export function createTools(): Tools {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentserve-examples-")));
  const packages = join(folder, "node_modules");
  mkdirSync(packages);
  mkdirSync("node_modules/.cache", { recursive: true }); // compiled files are kept for the next run
  for (const name of readdirSync("node_modules")) symlinkSync(resolve("node_modules", name), join(packages, name));
  symlinkSync(resolve("."), join(packages, "agentserve"));

  const commands = join(folder, "bin");
  mkdirSync(commands);
  const add = (name: string, script: string) => {
    writeFileSync(join(commands, name), script);
    chmodSync(join(commands, name), 0o755);
  };
  add("node", `#!/bin/sh\nexec "${process.execPath}" "$@"\n`);
  const vitest = resolve("node_modules/vitest/vitest.mjs");
  const patient = "--testTimeout=120000 --hookTimeout=120000"; // on a machine with other work, 5 s are not enough
  const programs = `agentserve) bin="${bin}" ;; vitest) bin="${vitest}"; set -- "$@" ${patient} ;;`;
  add("npx", `#!/bin/sh\ncase "$1" in ${programs} *) exit 1 ;; esac\nshift\nexec "${process.execPath}" "$bin" "$@"\n`);
  add("npm", `${npm}ln -sfn "${packages}" node_modules\n`);
  const browser = `#!/bin/sh\necho "$1" >> "${folder}/shown"\n`;
  for (const name of ["open", "xdg-open"]) add(name, browser);
  writeFileSync(join(folder, ".curlrc"), "silent\nshow-error\n"); // as in a terminal: no meter
  const missing = Object.entries({ curl, sqlite3 }).filter(([name]) => !isInstalled(name));
  for (const [name, program] of missing) {
    writeFileSync(join(folder, `${name}.mjs`), program);
    add(name, `#!/bin/sh\nexec "${process.execPath}" "${folder}/${name}.mjs" "$@"\n`);
  }

  const set = {
    PATH: [commands, process.env["PATH"]].join(delimiter),
    TMPDIR: folder,
    CURL_HOME: folder,
    PORT: "0",
    NO_COLOR: "1",
  };
  const unset = [
    ...Object.keys(process.env).filter((name) => name.startsWith("VITEST")), // those of this run
    "NODE_ENV",
    "HOST",
    "JWT_SECRET",
    "AGENTSERVE_DATA",
    "AGENTSERVE_URL",
    "AGENTSERVE_TOKEN",
    "AGENTSERVE_JWT_SECRET",
  ];
  return {
    env: { ...process.env, ...Object.fromEntries(unset.map((name) => [name, undefined])), ...set },
    replaced: missing.map(([name]) => name),
    project(files) {
      const made = createProject(files);
      rmSync(join(made, "node_modules"));
      symlinkSync(packages, join(made, "node_modules"));
      return made;
    },
    shown: () => (existsSync(join(folder, "shown")) ? readFileSync(join(folder, "shown"), "utf8") : ""),
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** The files of a template. */
export function readTemplate(name: string): Record<string, string> {
  const cwd = resolve("templates", name);
  const names = globSync("**/*", { cwd, exclude: (path) => path === "node_modules" || path === ".agentserve" });
  const files = names.filter((file) => statSync(join(cwd, file)).isFile());
  return Object.fromEntries(files.map((file) => [file, readFileSync(join(cwd, file), "utf8")]));
}

// What it would fetch is there already. The test of the packed package installs for real.
const npm = `#!/bin/sh
case "$1" in install | ci) ;; *) echo "npm $1 is not for examples" >&2; exit 1 ;; esac
[ -f package.json ] || { echo "no package.json" >&2; exit 1; }
[ "$1" = install ] || [ -f package-lock.json ] || { echo "npm ci needs a package-lock.json" >&2; exit 1; }
`;

function isInstalled(name: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${name}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
