import { itSurvivesInputs, repeat } from "./heavy-inputs.ts";

itSurvivesInputs("one long text", (space) => JSON.stringify("x".repeat(space - 2)));
itSurvivesInputs("records", (space) => repeat('{"id":1,"name":"a product with a name","tags":["a"]}', space));
