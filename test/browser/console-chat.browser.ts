import { expect, it } from "vitest";
import { until } from "../harness/waiting.ts";
import { describeAgents } from "./console-agents-world.ts";
import { expectNoProblems } from "./console-page.ts";

describeAgents("the chat of the console", (world) => {
  it("streams an answer, keeps the focus, and says when it is complete", async () => {
    const tab = await world.begin();
    await tab.say("alpha beta hold gamma");
    await tab.sees("alpha beta");
    expect(await tab.words()).toEqual(["alpha beta hold gamma", "alpha beta "]);
    expect(await tab.composer.evaluate((input) => input === document.activeElement)).toBe(true);
    world.gates.open("hold");
    await tab.isReady();
    expect(await tab.words()).toEqual(["alpha beta hold gamma", "alpha beta hold gamma"]);
    await tab.page.getByText("The answer is complete").waitFor({ state: "attached" });
    const footer = tab.answers.last().locator("footer");
    await footer.getByText(/\d+ input \+ 4 output tokens/).waitFor();
    await footer.getByText("stop", { exact: true }).waitFor();
    expectNoProblems(tab);
  });

  it("begins a new line of a message with Shift+Enter", async () => {
    const tab = await world.begin();
    await tab.composer.fill("one");
    await tab.composer.press("Shift+Enter");
    await tab.page.keyboard.type("two");
    await tab.composer.press("Enter");
    await tab.isReady();
    expect(await tab.words()).toEqual(["one\ntwo", "one\ntwo"]);
  });

  it("sends files that were chosen, pasted and dropped", async () => {
    const tab = await world.begin();
    await tab.page.locator("form.sticky input[type=file]").setInputFiles({
      name: "dot.png",
      mimeType: "image/png",
      buffer: Buffer.from(dot, "base64"),
    });
    await tab.page.getByRole("button", { name: "Remove dot.png" }).waitFor();
    for (const type of ["paste", "drop"] as const) {
      await tab.composer.evaluate((input, kind) => {
        const data = new DataTransfer();
        data.items.add(new File([`by ${kind}`], `${kind}.txt`, { type: "text/plain" }));
        const options = { bubbles: true, cancelable: true };
        const event =
          kind === "paste"
            ? new ClipboardEvent("paste", { ...options, clipboardData: data })
            : new DragEvent("drop", { ...options, dataTransfer: data });
        input.dispatchEvent(event);
      }, type);
      await tab.page.getByRole("button", { name: `Remove ${type}.txt` }).waitFor();
    }
    await tab.say("look at these");
    await tab.isReady();
    const look = async (): Promise<void> => {
      const own = tab.page.getByRole("article", { name: "You" });
      expect(await own.getByRole("img", { name: "dot.png" }).getAttribute("src")).toBe(`data:image/png;base64,${dot}`);
      await own.getByRole("link", { name: "drop.txt" }).waitFor();
      const [saved] = await Promise.all([
        tab.page.waitForEvent("download"),
        own.getByRole("link", { name: "paste.txt" }).click(),
      ]);
      expect(saved.suggestedFilename()).toBe("paste.txt");
      const chunks: Buffer[] = [];
      for await (const chunk of await saved.createReadStream()) chunks.push(chunk as Buffer);
      expect(Buffer.concat(chunks).toString()).toBe("by paste");
    };
    await look();
    await tab.page.reload();
    await tab.isReady();
    await look();
    expectNoProblems(tab);
  });

  it("shows the server's message about files that are too large", async () => {
    const tab = await world.begin();
    await tab.page.locator("form.sticky input[type=file]").setInputFiles({
      name: "large.bin",
      mimeType: "application/octet-stream",
      buffer: Buffer.alloc(3_000_000),
    });
    await tab.say("look");
    await tab.page
      .getByRole("alert")
      .getByText(/too large|larger than|at most/i)
      .waitFor();
  });

  it("stops a turn at the server, and keeps what was made", async () => {
    const tab = await world.begin();
    await tab.say("alpha beta hold gamma");
    await tab.sees("alpha beta");
    await tab.click("Stop");
    await tab.answers.last().locator("footer").getByText("stopped").waitFor();
    expect(await tab.words()).toEqual(["alpha beta hold gamma", "alpha beta "]);
    expect(await tab.composer.evaluate((input) => input === document.activeElement)).toBe(true);
    await tab.page.reload();
    await tab.answers.last().locator("footer").getByText("stopped").waitFor();
    expect(await tab.words()).toEqual(["alpha beta hold gamma", "alpha beta "]);
    expectNoProblems(tab);
  });

  it("regenerates an answer, and changes the last message of the user", async () => {
    const tab = await world.begin();
    await tab.say("one");
    await tab.isReady();
    await tab.say("two");
    await tab.sees("two");
    await tab.isReady();
    const before = await tab.answers.last().locator("time").getAttribute("datetime");
    await tab.click("Regenerate");
    const isOther = async (): Promise<boolean> => {
      const times = await tab.answers.last().locator("time").all();
      return times.length > 0 && (await times[0]!.getAttribute("datetime")) !== before;
    };
    await until(isOther, "another answer");
    await tab.isReady();
    expect(await tab.words()).toEqual(["one", "one", "two", "two"]);
    await tab.click("Edit");
    await tab.page.getByLabel("Changed message").fill("three");
    await tab.page.getByLabel("Changed message").press("Escape");
    await tab.click("Edit");
    await tab.page.getByLabel("Changed message").fill("four");
    await tab.page.getByLabel("Changed message").press("Enter");
    await tab.sees("four");
    await tab.isReady();
    await tab.page.reload();
    await tab.isReady();
    expect(await tab.words()).toEqual(["one", "one", "four", "four"]);
    expectNoProblems(tab);
  });

  it("shows the error of a model with its detail, and tries again", async () => {
    const tab = await world.begin("weak");
    world.failModel(2);
    await tab.say("are you there?");
    const alert = tab.page.getByRole("alert");
    await alert.getByText("Model call failed").waitFor();
    await alert.getByText("The provider is on fire").waitFor();
    await tab.page.reload();
    await tab.page.getByText("This message has no answer").waitFor();
    await tab.click("Try again");
    await alert.getByText("Model call failed").waitFor();
    await tab.click("Try again");
    await tab.sees("Here I am");
    await tab.isReady();
    expect(await tab.words()).toEqual(["are you there?", "Here I am"]);
    expect(await alert.count()).toBe(0);
  });

  it("does not move the chat of a user who has scrolled up", async () => {
    const tab = await world.begin();
    const lines = Array.from({ length: 60 }, (_, index) => `line ${index}`).join("\n");
    await tab.say(lines);
    await tab.isReady();
    const atEnd = (): Promise<boolean> =>
      tab.page.evaluate(() => innerHeight + scrollY >= document.documentElement.scrollHeight - 2);
    await tab.say(`${lines}\nhold1 ${lines}\nhold2 end`);
    const shows = (count: number): Promise<void> =>
      until(async () => (await tab.words()).at(-1)!.split("line 59").length > count, "the new words");
    await world.gates.reached("hold1");
    await until(async () => (await tab.words()).length === 4, "the answer");
    await shows(1);
    await until(atEnd, "the end of the page");
    await tab.page.mouse.move(640, 300);
    await tab.page.mouse.wheel(0, -600);
    await tab.page.getByRole("button", { name: "Go to the end" }).waitFor();
    const before = await tab.page.evaluate(() => scrollY);
    world.gates.open("hold1");
    await world.gates.reached("hold2");
    await shows(2);
    expect(await tab.page.evaluate(() => scrollY)).toBe(before);
    await tab.click("Go to the end");
    world.gates.open("hold2");
    await tab.isReady();
    await until(atEnd, "the end of the page");
  });
});

/** A picture of one pixel. */
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
