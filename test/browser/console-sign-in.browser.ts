import { defineWorkflow, jwtAuth, type Config } from "agentserve";
import { describe, expect, it, onTestFinished } from "vitest";
import { embedded } from "../../src/backends/embedded/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { createTestLogger } from "../harness/server.ts";
import { openPage } from "./console-page.ts";
import { secret, token } from "./fixtures.ts";

const work = defineWorkflow({ id: "work", name: "Work" }).andThen({ id: "only", execute: () => 1 });
const auth = jwtAuth({ secret, defaultPrivate: true });

describe("signing in to the console", () => {
  it("asks for a token, says what is wrong with it, and signs in with a valid one", async () => {
    const { url } = await serve({ auth, console: true }, "start");
    const { page, faults } = await openPage(`${url}/console#/workflows`);
    await page.getByLabel("Token").fill("nonsense");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("Invalid token").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Work", exact: true }).waitFor();
    expect(await page.getByRole("link", { name: "Routes" }).count()).toBe(0); // only for the link of dev
    await page.reload();
    await page.getByRole("link", { name: "Work", exact: true }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    expect(faults).toEqual([]);
  });

  it("asks for a token again after a restart of the server, and continues where the page was", async () => {
    const first = await serve({ auth });
    const { page, faults } = await openPage(`${first.url}/console#t=${first.server.sessions!.link}`);
    await page.getByRole("link", { name: "Workflows" }).click();
    await page.getByRole("link", { name: "Work", exact: true }).waitFor();
    await first.server.close();
    await page.getByText("Lost the connection to the server").waitFor();
    await serve({ auth }, "dev", Number(new URL(first.url).port));
    await page.getByRole("alert").getByText("The server was started again").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Work", exact: true }).waitFor();
    expect(faults).toEqual([]);
  });

  it("tells a user without console.view that the console is not allowed", async () => {
    const { url } = await serve({ auth, console: true, authorize: ({ action }) => action !== "console.view" }, "start");
    const { page } = await openPage(`${url}/console`);
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("You may not use the console").waitFor();
    await page.getByRole("button", { name: "Use another token" }).click();
    await page.getByLabel("Token").waitFor();
  });

  it("lets a user without console.act look at the console, and not act", async () => {
    const { url } = await serve({ auth, console: true, authorize: ({ action }) => action !== "console.act" }, "start");
    const { page } = await openPage(`${url}/console#/workflows/work`);
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("may only look").waitFor();
    await page.getByRole("heading", { name: "Work" }).waitFor();
    expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
  });
});

async function serve(
  config: Config,
  mode: "dev" | "start" = "dev",
  port = 0,
): Promise<{ server: OpenServer; url: string }> {
  const project = toProject({ backend: embedded({ path: ":memory:" }), workflows: [work], ...config });
  const server = openServer(project, { mode, logger: createTestLogger([]) });
  onTestFinished(() => server.close());
  const { url } = await server.listen({ port });
  return { server, url };
}
