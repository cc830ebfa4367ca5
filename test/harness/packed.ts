import { execFileSync } from "node:child_process";
import { delimiter, dirname, join } from "node:path";

/** The environment of a user: a supported Node is first on PATH. */
export const userEnv: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"]}`,
};

/** Packs this package, as built, into a folder. Returns the tarball. */
export const pack = (folder: string): string =>
  join(folder, npm(["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], ".").trim());

/** Installs the dependencies of a folder's package, and these packages. */
export const install = (folder: string, ...packages: string[]): string =>
  npm(["install", "--prefer-offline", "--no-audit", "--no-fund", ...packages], folder);

export const npm = (args: string[], cwd: string): string => execute("npm", args, cwd);
export const npx = (args: string[], cwd: string): string => execute("npx", args, cwd);

/** Returns the output of a command; throws with it when the command fails. */
export const execute = (command: string, args: string[], cwd: string): string =>
  execFileSync(command, args, { cwd, env: userEnv, encoding: "utf8", stdio: "pipe", timeout: 1_800_000 });
