import { Command } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { fail } from "./fail.ts";

/** Each command is imported only when it runs, so that `--help` costs next to nothing. */
export async function main(argv: string[]): Promise<void> {
  const program = new Command("agentserve")
    .description("Serve AI agents and workflows over HTTP from one agents.config.ts")
    .version(manifest.version)
    .option("--debug", "show the stack of an error")
    .showHelpAfterError("(agentserve --help shows what there is)")
    .addHelpText("after", examples);

  for (const [name, summary] of [
    ["dev", "serve the config of this folder, for development"],
    ["start", "serve the config of this folder, for production"],
  ] as const) {
    program
      .command(name)
      .description(summary)
      .option("--config <file>", "the config to serve (default: agents.config.ts)")
      .option("--port <number>", "the port to listen on (default: 3141)")
      .option("--host <name>", "the address to listen on (default: 127.0.0.1)")
      .option("--data <file>", "the file that holds the executions (default: .agentserve/data.db)")
      .addHelpText("after", `\nExample:\n  $ npx agentserve ${name} --port 8080`)
      .action(async (options: { config?: string; port?: string; host?: string; data?: string }) => {
        const { serve } = await import("./serve.ts");
        await serve(name, options);
      });
  }

  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    fail(error, program.opts<{ debug?: boolean }>().debug ?? false);
  }
}

const examples = `
Examples:
  $ npx agentserve dev                      serve agents.config.ts in this folder
  $ npx agentserve dev --config app/agents.config.ts
  $ PORT=8080 npx agentserve start          the same server, for production`;
