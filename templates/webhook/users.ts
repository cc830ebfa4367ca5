/** The shop whose webhook sends the orders. The orders belong to it, and so do the reports, which can read them. */
export const shop = { id: "service:shop" };
