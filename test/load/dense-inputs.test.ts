import { itSurvivesInputs, repeat } from "./heavy-inputs.ts";

// The most heap for a byte of JSON: 2 MB of empty lists are 700,000 objects.
itSurvivesInputs("empty lists", (space) => repeat("[]", space));
itSurvivesInputs("empty objects", (space) => repeat("{}", space));
