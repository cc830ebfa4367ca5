import { spawn } from "node:child_process";
import { colors } from "./colors.ts";

const commands: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/**
 * Shows a page in the person's browser. listhen could do so, too, but runs `xdg-open` out of the folder for temporary files,
 * where anybody may have put it.
 */
export function openBrowser(url: string): void {
  const [command = "xdg-open", ...args] = commands[process.platform] ?? [];
  const child = spawn(command, [...args, url], { stdio: "ignore", detached: true });
  child.once("error", () => process.stderr.write(colors.dim(`there is no ${command}: open ${url} yourself\n`)));
  child.unref();
}
