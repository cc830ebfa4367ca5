/** Programs that use the generated clients. Each prints the same summary. A line with an error must not compile. */
export const programs: Readonly<Record<string, string>> = {
  "openapi-typescript": `
import createClient from "openapi-fetch";
import type { paths } from "./api.js";
import { baseUrl, token } from "./env.js";

const api = createClient<paths>({ baseUrl, headers: { authorization: \`Bearer \${token}\` } });
const execute = (amount: number) => api.POST("/workflows/order.approve/execute", { body: { input: { amount } } });
// @ts-expect-error the input needs an amount
const wrong = await api.POST("/workflows/order.approve/execute", { body: { input: {} } });
// @ts-expect-error the body is required
const without = () => api.POST("/workflows/order.approve/execute");

const list = await api.GET("/workflows");
const small = await execute(50);
const large = await execute(500);
const amount: number | undefined = small.data && "result" in small.data.data ? small.data.data.result?.amount : undefined;
const { executionId } = large.data!.data;
const resumed = await api.POST("/workflows/order.approve/executions/{executionId}/resume", {
  params: { path: { executionId } },
  body: { resumeData: { approved: false } },
});
const later = await api.POST("/workflows/order.approve/execute", {
  params: { header: { Prefer: "respond-async" } },
  body: { input: { amount: 1 } },
});
const page = await api.GET("/workflows/{id}/executions", { params: { path: { id: "order.approve" }, query: { limit: 1 } } });
const text = await api.POST("/agents/helper/text", { body: { input: "Hello" } });
const anonymous = await createClient<paths>({ baseUrl }).POST("/agents/helper/text", { body: { input: "Hello" } });
const custom = await api.GET("/hello");
const attached = await api.GET("/workflows/{id}/executions/{executionId}/stream", {
  params: { path: { id: "order.approve", executionId }, header: { "Last-Event-ID": 2 } },
  parseAs: "text",
});
console.log(JSON.stringify({
  list: list.data?.data.map(({ id, stepsCount }) => [id, stepsCount]),
  amount,
  suspended: large.data?.data.status,
  approved: resumed.data && "result" in resumed.data.data ? resumed.data.data.result?.approved : undefined,
  later: [later.response.status, later.data?.data.status],
  page: page.data?.data.items.length,
  text: text.data && "text" in text.data.data ? text.data.data.text : undefined,
  wrong: [wrong.response.status, wrong.error?.error],
  anonymous: [anonymous.response.status, anonymous.error?.error],
  custom: custom.data,
  firstSeq: Number(/id: (\\d+)/.exec(attached.data as string)?.[1]),
}));
`,
  "openapi-ts": `
import * as api from "./client/index.js";
import { client } from "./client/client.gen.js";
import { baseUrl, token } from "./env.js";

client.setConfig({ baseUrl, auth: () => token });
const execute = (amount: number) => api.executeWorkflowOrderApprove({ body: { input: { amount } } });
// @ts-expect-error the input needs an amount
const wrong = await api.executeWorkflowOrderApprove({ body: { input: {} } });
// @ts-expect-error the body is required
const without = () => api.executeWorkflowOrderApprove({});

const list = await api.getWorkflows();
const small = await execute(50);
const large = await execute(500);
const amount: number | undefined = small.data && "result" in small.data.data ? small.data.data.result?.amount : undefined;
const { executionId } = large.data!.data;
const resumed = await api.resumeWorkflowOrderApprove({ path: { executionId }, body: { resumeData: { approved: false } } });
const later = await api.executeWorkflowOrderApprove({
  headers: { Prefer: "respond-async" },
  body: { input: { amount: 1 } },
});
const page = await api.getWorkflowsByIdExecutions({ path: { id: "order.approve" }, query: { limit: 1 } });
const text = await api.askAgentHelper({ body: { input: "Hello" } });
const anonymous = await api.askAgentHelper({ body: { input: "Hello" }, auth: () => undefined });
const custom = await api.getHello();
const seqs: (number | undefined)[] = [];
const { stream } = await api.getWorkflowsByIdExecutionsByExecutionIdStream({
  path: { id: "order.approve", executionId },
  headers: { "Last-Event-ID": 2 },
});
for await (const event of stream) if (event) seqs.push(event.seq);
const parts: string[] = [];
const answer = await api.postAgentsByIdStream({ path: { id: "helper" }, body: { input: "Hello" } });
for await (const event of answer.stream) if (event.type === "text-delta") parts.push(event.delta);
console.log(JSON.stringify({
  list: list.data?.data.map(({ id, stepsCount }) => [id, stepsCount]),
  amount,
  suspended: large.data?.data.status,
  approved: resumed.data && "result" in resumed.data.data ? resumed.data.data.result?.approved : undefined,
  later: [later.response?.status, later.data?.data.status],
  page: page.data?.data.items.length,
  text: text.data && "text" in text.data.data ? text.data.data.text : undefined,
  wrong: [wrong.response?.status, wrong.error?.error],
  anonymous: [anonymous.response?.status, anonymous.error?.error],
  custom: custom.data,
  firstSeq: seqs[0],
  streamed: parts.join(""),
}));
`,
  orval: `
import * as api from "./client.js";
import { token } from "./env.js";

const headers = { authorization: \`Bearer \${token}\` };
const execute = (amount: number) => api.executeWorkflowOrderApprove({ input: { amount } }, { headers });
// @ts-expect-error the input needs an amount
const wrong = await api.executeWorkflowOrderApprove({ input: {} }, { headers });
// @ts-expect-error the body is required
const without = () => api.executeWorkflowOrderApprove();

const list = await api.getWorkflows();
const small = await execute(50);
const large = await execute(500);
const amount: number | undefined = small.status === 200 ? small.data.data.result?.amount : undefined;
const executionId = large.status === 200 ? large.data.data.executionId : "";
const resumed = await api.resumeWorkflowOrderApprove(executionId, { resumeData: { approved: false } }, { headers });
const later = await api.executeWorkflowOrderApprove({ input: { amount: 1 } }, { headers: { ...headers, Prefer: "respond-async" } });
const page = await api.getWorkflowsByIdExecutions("order.approve", { limit: 1 }, { headers });
const text = await api.askAgentHelper({ input: "Hello" }, { headers });
const anonymous = await api.askAgentHelper({ input: "Hello" });
const custom = await api.getHello();
console.log(JSON.stringify({
  list: list.status === 200 ? list.data.data.map(({ id, stepsCount }) => [id, stepsCount]) : undefined,
  amount,
  suspended: large.status === 200 ? large.data.data.status : undefined,
  approved: resumed.status === 200 ? resumed.data.data.result?.approved : undefined,
  later: [later.status, later.status === 202 ? later.data.data.status : undefined],
  page: page.status === 200 ? page.data.data.items.length : undefined,
  text: text.status === 200 ? text.data.data.text : undefined,
  wrong: [wrong.status, wrong.status === 400 ? wrong.data.error : undefined],
  anonymous: [anonymous.status, anonymous.status === 401 ? anonymous.data.error : undefined],
  custom: custom.data,
}));
`,
};
