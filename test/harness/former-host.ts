// The process of a former build. `former-build.ts` copies this file into the tree of that build and runs it there, so `src` is
// that of the build: node former-host.ts <module>. The default function of the module returns the config for the options.
import { pathToFileURL } from "node:url";
import { createServer, type Config } from "../../src/index.ts";

const { default: create } = (await import(pathToFileURL(process.argv[2]!).href)) as {
  default: (options: unknown) => { config: Config };
};

process.once("message", async (options) => {
  const server = createServer(create(options).config);
  const { url } = await server.listen({ port: 0 });
  await server.ready();
  process.send!(url);
});
process.on("disconnect", () => process.exit()); // the test is over
