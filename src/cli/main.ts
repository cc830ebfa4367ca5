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
    const command = program
      .command(name)
      .description(summary)
      .option("--config <file>", "the config to serve (default: agents.config.ts)")
      .option("--port <number>", "the port to listen on (default: 3141)")
      .option("--host <name>", "the address to listen on (default: 127.0.0.1)")
      .option("--data <file>", "the file that holds the executions (default: .agentserve/data.db)")
      .option("--json", "log one JSON record a line, in a terminal, too")
      .addHelpText("after", `\nExample:\n  $ npx agentserve ${name} --port 8080`)
      .action(async (options: { config?: string; port?: string; host?: string; data?: string; json?: boolean }) => {
        const { serve } = await import("./serve.ts");
        await serve(name, options);
      });
    if (name === "start")
      command.option("--allow-weak-secret", "serve although the secret of jwtAuth() can be guessed");
  }

  program
    .command("token")
    .description("make a JWT for a caller")
    .option("--sub <id>", "the id of the user")
    .option("--claim <key=value>", "a claim more, JSON or text; may be repeated", (text, all: string[] = []) => [
      ...all,
      text,
    ])
    .option("--expires <duration>", 'how long it is good for: 30m, 2h, 7d, or "never"', "1h")
    .option("--audience <name>", "for whom it is (default: what the config says)")
    .option("--issuer <name>", "who made it (default: what the config says)")
    .option("--secret <text>", "what to sign with (default: AGENTSERVE_JWT_SECRET, or the config's own)")
    .option("--config <file>", "the config to sign for (default: agents.config.ts)")
    .addHelpText("after", tokenExamples)
    .action(async (options) => {
      const { token } = await import("./token.ts");
      await token(options);
    });

  program
    .command("routes")
    .description("list every route, and who may call it")
    .option("--config <file>", "the config to read (default: agents.config.ts)")
    .option("--json", "as JSON")
    .addHelpText(
      "after",
      "\nExample:\n  $ npx agentserve routes --json | jq '.[] | select(.access == \"public\").path'",
    )
    .action(async (options) => {
      const { routes } = await import("./routes.ts");
      await routes(options);
    });

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
  $ PORT=8080 npx agentserve start          the same server, for production
  $ npx agentserve token --sub ada          a token for a caller
  $ npx agentserve routes                   every route, and who may call it`;
const tokenExamples = `
The token alone goes to stdout, what it is worth to stderr.

Examples:
  $ npx agentserve token --sub ada
  $ npx agentserve token --sub ada --claim 'roles=["admin"]' --claim tier=gold --expires 7d
  $ curl -H "Authorization: Bearer $(npx agentserve token --sub ada)" http://127.0.0.1:3141/agents`;
