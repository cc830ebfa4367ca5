import { spawn } from "node:child_process";
import { colors } from "../colors.ts";

const commands: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/**
 * Opens a URL in the user's browser. The same feature of listhen runs `xdg-open` from the folder for temporary files,
 * where any user of the machine could have placed it. `shown` is the URL without a token, for the message that it failed.
 */
export function openBrowser(url: string, shown: string): void {
  const [command = "xdg-open", ...args] = commands[process.platform] ?? [];
  const child = spawn(command, [...args, url], { stdio: "ignore", detached: true });
  child.once("error", () =>
    process.stderr.write(colors.dim(`could not run ${command}: open ${shown} in your browser\n`)),
  );
  child.unref();
}
