import { Option, type Command } from "commander";
import {
  callExamples,
  devExamples,
  doctorExamples,
  initExamples,
  logsExamples,
  routesExamples,
  runsExamples,
  schedulesExamples,
  startExamples,
  tokenExamples,
  typesExamples,
} from "./help.ts";
import { runInChild } from "./result.ts";

/** Adds every command. Each one is imported only when it runs, so that `--help` is fast. */
export function addCommands(program: Command): void {
  addServing(program);
  addInit(program);
  addCall(program);
  addToken(program);
  addRoutes(program);
  addTypes(program);
  addRuns(program);
  addSchedules(program);
  addLogs(program);
  addDoctor(program);
}

const toConfigText = (use: string): string => `the config to ${use} (default: agents.config.ts)`;
const dataText = "the data file (default: $AGENTSERVE_DATA, the path of the backend, or .agentserve/data.db)";

/** Adds the options of a command that speaks to a running server. */
const onServer = (command: Command): Command =>
  command
    .option("--url <url>", "the URL of the server (default: AGENTSERVE_URL, or http://127.0.0.1:3141)")
    .option("--token <jwt>", "the bearer token (default: AGENTSERVE_TOKEN)");

function addServing(program: Command): void {
  const serving = (name: "dev" | "start", summary: string): Command =>
    program
      .command(name)
      .description(summary)
      .option("--config <file>", toConfigText("serve"))
      .option("--port <number>", "the port to listen on (default: $PORT, server.port, or 3141)")
      .option("--host <name>", "the address to listen on (default: $HOST, server.host, or 127.0.0.1)")
      .option("--data <file>", dataText)
      .option("--json", "log one JSON record per line, even in a terminal");

  serving("dev", "serve the project in this folder and reload it on save")
    .option("--https", "serve over HTTPS with a self-signed certificate")
    .option("--open", "open the console in a browser")
    .addHelpText("after", devExamples)
    .action(async (_, command) => (await import("./serve/dev.ts")).dev(command.optsWithGlobals()));
  serving("start", "serve the project in this folder for production")
    .option("--strict", "refuse to start with risky defaults")
    .option("--no-recovery", "do not continue executions that were running when the last process ended")
    .addHelpText("after", startExamples)
    .action(async (options) => (await import("./serve/start.ts")).start(options));
}

function addInit(program: Command): void {
  const templates = ["starter", "minimal", "pipeline", "webhook", "support-desk"];
  program
    .command("init")
    .description("create a new project")
    .argument("[dir]", "the folder to create it in (default: the current folder)")
    .addOption(new Option("--template <name>", "the template to use").choices(templates))
    .addHelpText("after", initExamples)
    .action(async (dir, options) => (await import("./project/init.ts")).init(dir, options));
}

function addCall(program: Command): void {
  const command = program
    .command("call")
    .description("run a workflow or call an agent on a running server")
    .argument("<kind>", "workflow or agent")
    .argument("<id>", "the id of the workflow or agent")
    .argument("[input]", "JSON for a workflow, text for an agent, or - to read stdin");
  onServer(command)
    .option("--conversation <id>", "the conversation to start or continue")
    .option("--execution <id>", "the id of the new execution; without an input, the execution to follow")
    .option("--resume <json>", "the resume data, if the workflow suspends (prompted for in a terminal)")
    .option("--json", "print every event as JSON, one per line")
    .addHelpText("after", callExamples)
    .action(async (kind, id, input, options) =>
      (await import("./call/run-call.ts")).call({ kind, id, input }, options),
    );
}

const collect = (text: string, all: string[] = []): string[] => [...all, text];

function addToken(program: Command): void {
  program
    .command("token")
    .description("create a JWT for a user")
    .option("--sub <id>", "the id of the user")
    .option("--claim <key=value>", "an additional claim, JSON or text (repeatable)", collect)
    .option("--expires <duration>", 'the lifetime: 30m, 2h, 7d or "never"', "1h")
    .option("--audience <name>", "the audience (default: from the config)")
    .option("--issuer <name>", "the issuer (default: from the config)")
    .option("--secret <text>", "the signing secret (default: AGENTSERVE_JWT_SECRET, or from the config)")
    .addHelpText("after", tokenExamples)
    .action(async (options) => {
      if (await runInChild()) return;
      await (await import("./project/token.ts")).token(options);
    });
}

function addRoutes(program: Command): void {
  program
    .command("routes")
    .description("list every route and its access")
    .option("--config <file>", toConfigText("read"))
    .option("--json", "print JSON")
    .addHelpText("after", routesExamples)
    .action(async (options) => {
      if (options.json && (await runInChild())) return;
      await (await import("./project/routes.ts")).routes(options);
    });
}

function addTypes(program: Command): void {
  program
    .command("types")
    .description("write agentserve-env.d.ts, so that runtime.start() knows the workflows by their ids")
    .option("--config <file>", toConfigText("read"))
    .option("--check", "write nothing, and fail if the file is out of date")
    .addHelpText("after", typesExamples)
    .action(async (options) => (await import("./project/types.ts")).types(options));
}

function addRuns(program: Command): void {
  const runs = program
    .command("runs")
    .description("list, show and repair executions of a running server, or of a data file")
    .addHelpText("after", runsExamples);
  const add = (name: string, summary: string, isDefault = false): Command =>
    onServer(runs.command(name, { isDefault }).description(summary))
      .option("--data <file>", "the data file of a stopped server: list, show and cancel only")
      .option("--json", "print JSON");
  add("list", "list the newest executions", true)
    .option("--status <status>", "running, suspended, completed or error, several with commas (default: all)")
    .option("--workflow <id>", "only executions of this workflow")
    .option("--kind <kind>", "only executions that wait for a person or request, or that the system suspended")
    .option("--user <id>", "only executions of this user")
    .option("--limit <number>", "max executions to list (default: 50)")
    .action(async (options) => (await import("./runs/runs.ts")).listRuns(options));
  add("show <id>", "show an execution and its steps, with times, values and errors")
    .option("--under <step>", "only the steps inside this loop, item or sub-workflow, such as each/3")
    .option("--status <status>", "only steps with this status, also inside loops: error, suspended, running …")
    .action(async (id, options) => (await import("./runs/runs.ts")).showRun(id, options));
  add("retry <id>", "retry a failed execution: the steps that failed run again").action(async (id, options) =>
    (await import("./runs/act.ts")).retryRun(id, options),
  );
  add("resume <id> [data]", "resume a suspended execution with JSON, or - to read stdin")
    .option("--step <id>", "the step to continue, or an earlier one to go back to")
    .action(async (id, data, options) => (await import("./runs/act.ts")).resumeRun(id, data, options));
  add("fork <id>", "start a new execution with the results of this one")
    .option("--from <step>", "the first step that runs (default: the one that failed or waits)")
    .option("--input <json>", "another input; the new execution begins with the first step")
    .action(async (id, options) => (await import("./runs/act.ts")).forkRun(id, options));
  add("cancel <id>", "cancel an execution; it cannot be resumed")
    .option("--reason <text>", "the reason to store")
    .action(async (id, options) => (await import("./runs/act.ts")).cancelRun(id, options));
}

const loadSchedules = () => import("./schedules/schedules.ts");

function addSchedules(program: Command): void {
  const schedules = program
    .command("schedules")
    .description("list, trigger, pause and resume schedules of a running server")
    .addHelpText("after", schedulesExamples);
  const add = (name: string, summary: string, isDefault = false): Command =>
    onServer(schedules.command(name, { isDefault }).description(summary)).option("--json", "print JSON");
  add("list", "list the schedules with their times", true).action(async (options) =>
    (await loadSchedules()).listSchedules(options),
  );
  add("trigger <id>", "start an execution of a schedule now").action(async (id, options) =>
    (await loadSchedules()).triggerSchedule(id, options),
  );
  add("pause <id>", "pause a schedule: it starts no executions until it is resumed").action(async (id, options) =>
    (await loadSchedules()).pauseSchedule(id, options),
  );
  add("resume <id>", "resume a paused schedule").action(async (id, options) =>
    (await loadSchedules()).resumeSchedule(id, options),
  );
}

function addLogs(program: Command): void {
  const command = program
    .command("logs")
    .description("print the newest log records of a running server")
    .option("-f, --follow", "keep printing new records; reconnects if the connection is lost")
    .option("--level <level>", "the lowest level: trace, debug, info, warn, error or fatal (default: all)")
    .option("--workflow <id>", "only records of this workflow")
    .option("--agent <id>", "only records of this agent")
    .option("--execution <id>", "only records of this execution")
    .option("--limit <number>", "max records to begin with, up to 1000 (default: 100)");
  onServer(command)
    .option("--json", "print one JSON record per line")
    .addHelpText("after", logsExamples)
    .action(async (options) => (await import("./logs.ts")).logs(options));
}

function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("check that this project can be served on this machine")
    .option("--config <file>", toConfigText("check"))
    .option("--data <file>", dataText)
    .option("--json", "print JSON")
    .addHelpText("after", doctorExamples)
    .action(async (options) => {
      if (options.json && (await runInChild())) return;
      await (await import("./project/doctor.ts")).doctor(options);
    });
}
