/**
 * The variables from which the provider packages of the AI SDK read their keys and required settings, by the name after
 * `@ai-sdk/`. Of each inner list, one must be set. A provider that is not listed is not checked.
 */
const variablesOf: Readonly<Record<string, readonly (readonly string[])[]>> = {
  alibaba: [["ALIBABA_API_KEY"]],
  "amazon-bedrock": [["AWS_REGION"], ["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"]],
  anthropic: [["ANTHROPIC_API_KEY"]],
  azure: [["AZURE_API_KEY"], ["AZURE_RESOURCE_NAME"]],
  baseten: [["BASETEN_API_KEY"]],
  cerebras: [["CEREBRAS_API_KEY"]],
  cohere: [["COHERE_API_KEY"]],
  deepinfra: [["DEEPINFRA_API_KEY"]],
  deepseek: [["DEEPSEEK_API_KEY"]],
  fireworks: [["FIREWORKS_API_KEY"]],
  google: [["GOOGLE_GENERATIVE_AI_API_KEY"]],
  groq: [["GROQ_API_KEY"]],
  huggingface: [["HUGGINGFACE_API_KEY"]],
  mistral: [["MISTRAL_API_KEY"]],
  moonshotai: [["MOONSHOT_API_KEY"]],
  openai: [["OPENAI_API_KEY"]],
  perplexity: [["PERPLEXITY_API_KEY"]],
  togetherai: [["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"]],
  vercel: [["VERCEL_API_KEY"]],
  xai: [["XAI_API_KEY"]],
};

/** Returns the missing variables of a provider: `OPENAI_API_KEY`, or `A or B` if one is enough. */
export function findMissingVariables(provider: string, env: NodeJS.ProcessEnv = process.env): string[] {
  const needed = Object.hasOwn(variablesOf, provider) ? variablesOf[provider]! : [];
  return needed.filter((names) => !names.some((name) => env[name])).map((names) => names.join(" or "));
}
