import type { Endpoint } from "./endpoint.ts";
import { createRegister } from "./register/register.ts";
import { createDriveService } from "./drive/drive-service.ts";
import { createWait } from "./reads/wait.ts";
import { createConversation } from "./conversations/service.ts";
import { createGroup } from "./groups/service.ts";
import { createMailbox } from "./mailbox/service.ts";
import { createScheduleBook } from "./schedules.ts";
import { createRecords } from "./records.ts";
import { createAnswers } from "./conversations/answers.ts";
import { createUsage } from "./usage/service.ts";
import { createTurnService } from "./turns.ts";

type ServiceParts = Parameters<typeof createRegister>[0] &
  Parameters<typeof createDriveService>[0] &
  Parameters<typeof createTurnService>[0];

/** The services of this replica's endpoint. */
export function createServices(parts: ServiceParts): ConstructorParameters<typeof Endpoint>[0]["services"] {
  return [
    createRegister(parts),
    createDriveService(parts),
    createWait(parts),
    createConversation(parts),
    createGroup(parts),
    createMailbox(parts),
    createScheduleBook(parts),
    createRecords(parts),
    createAnswers(parts),
    createUsage(parts),
    createTurnService(parts),
  ];
}
