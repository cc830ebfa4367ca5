/**
 * True if the suites run on the lowest version of the AI SDK that is supported (`vitest.ai.config.ts`). It does not know
 * `ping` parts of models and `steering-message` parts of messages, which later versions have.
 */
export const isLowestSdk: boolean = process.env["AI_RANGE"] === "lowest";
