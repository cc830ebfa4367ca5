/** The text after the options in `agentserve --help`. */
export const examples: string = `
Examples:
  $ npx agentserve init my-app              create a project; no API key needed
  $ npx agentserve dev                      serve agents.config.ts, reload on save
  $ npx agentserve call agent assistant "What is the weather in Berlin?"
  $ npx agentserve token --sub ada          create a token for a user
  $ PORT=8080 npx agentserve start          serve the same project in production

Exit codes:
  0  success, or stopped by SIGINT or SIGTERM
  1  failure; the last lines show the error and a hint
  2  invalid command line
  3  call, runs: the workflow is suspended and waits for an answer`;

// The texts after the options of each command.
export const devExamples: string = `
Examples:
  $ npx agentserve dev
  $ npx agentserve dev --open --port 8080
  $ npx agentserve dev --config apps/support --https`;
export const startExamples: string = `
Examples:
  $ npx agentserve start --strict
  $ PORT=8080 HOST=0.0.0.0 npx agentserve start --data /var/lib/my-app/data.db`;
export const initExamples: string = `
Existing files are never overwritten.

Examples:
  $ npx agentserve init my-app
  $ npx agentserve init --template minimal
  $ npx agentserve init my-shop --template webhook`;
export const callExamples: string = `
Examples:
  $ npx agentserve call agent assistant "What is the weather in Berlin?"
  $ npx agentserve call workflow approval '{"amount":500,"reason":"a chair"}'
  $ npx agentserve call workflow approval '{"amount":500,"reason":"a chair"}' --resume '{"approved":true}' --json
  $ npx agentserve call agent assistant - < question.txt`;
export const routesExamples: string = `
Example:
  $ npx agentserve routes --json | jq '.[] | select(.access == "public").path'`;
export const runsExamples: string = `
An id may be cut: the beginning of one is enough if no other id begins with it.
With --data, the server must be stopped. To start one without continuing any execution: agentserve start --no-recovery

Examples:
  $ npx agentserve runs --status error
  $ npx agentserve runs show chair-1
  $ npx agentserve runs show chair-1 --under each/3 --status error
  $ npx agentserve runs retry chair-1
  $ npx agentserve runs resume chair-1 '{"approved":true}'
  $ npx agentserve runs cancel chair-1 --data .agentserve/data.db`;
export const schedulesExamples: string = `
A schedule stays paused after a restart. Times that pass while it is paused are not made up.

Examples:
  $ npx agentserve schedules
  $ npx agentserve schedules trigger nightly
  $ npx agentserve schedules pause nightly
  $ npx agentserve schedules resume nightly`;
export const logsExamples: string = `
Examples:
  $ npx agentserve logs -f
  $ npx agentserve logs -f --level warn --workflow approval
  $ npx agentserve logs --execution chair-1 --json | jq .message`;
export const typesExamples: string = `
Examples:
  $ npx agentserve types
  $ npx agentserve types --check   # in CI`;
export const doctorExamples: string = `
Exits with code 1 if a check fails.

Examples:
  $ npx agentserve doctor
  $ npx agentserve doctor --json | jq .memory`;
export const tokenExamples: string = `
Prints the token to stdout and its details to stderr.

Examples:
  $ npx agentserve token --sub ada
  $ npx agentserve token --sub ada --claim 'roles=["admin"]' --claim tier=gold --expires 7d
  $ curl -H "Authorization: Bearer $(npx agentserve token --sub ada)" http://127.0.0.1:3141/agents`;
