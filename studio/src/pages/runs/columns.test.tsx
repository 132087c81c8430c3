import { expect, it } from "vitest";

import { columnOf, columnsOf, DEFAULT_COLUMNS, experimentColumns, hasArguments, metricsOf } from "./columns";

it("takes the columns of the address, each once, and leaves out what there is not", () => {
  const columns = columnsOf({ column: ["name", "metric.val/loss", "name", "nothing", "parameter.lr"] });
  expect(columns.map(({ id }) => id)).toEqual(["name", "metric.val/loss", "parameter.lr"]);
  expect(metricsOf(columns)).toEqual(["val/loss"]);
  expect(hasArguments(columns)).toBe(true);
});

it("has usual columns, and those of an experiment", () => {
  expect(columnsOf({}).map(({ id }) => id)).toEqual(DEFAULT_COLUMNS);
  const usual = experimentColumns({ parameters: ["a", "b", "c", "d"], metrics: ["loss"] });
  expect(usual).toEqual(["state", "name", "parameter.a", "parameter.b", "parameter.c", "metric.loss", "submitted_by", "created_at", "duration"]);
});

it("sorts by metrics, but not by parameters", () => {
  expect(columnOf("metric.loss")?.sort).toBe("metric.loss");
  expect(columnOf("parameter.lr")?.sort).toBeUndefined();
});
