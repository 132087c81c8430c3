import { describe, expect, it } from "vitest";

import { csvOf, columnsOf, groupMetrics, imageFile, matcherOf, shapeOf } from "./groups";
import { curvesOf, histogramOf, matrixOf } from "./documents";
import { indexRange, type MetricLine, refine, type SeriesSource, SeriesStore } from "./series-store";

const pause = () => new Promise((resolve) => setTimeout(resolve, 25));

class Server implements SeriesSource {
  points: Record<string, number[]> = {};
  requests: string[][] = [];
  private send: ((line: MetricLine) => void) | null = null;
  private seen: (() => string[]) | null = null;

  async series(names: string[]) {
    this.requests.push(names);
    return names
      .filter((name) => this.points[name])
      .map((name) => ({ name, kind: "scalar", count: this.points[name]!.length, points: this.points[name]!.map((value, at) => [at, at, at, value]) }));
  }

  follow(seen: () => string[], onMetric: (line: MetricLine) => void): Promise<void> {
    this.seen = seen;
    this.send = onMetric;
    return new Promise(() => undefined);
  }

  /** Sends what a client does not have yet, as a (re)connection does. */
  connect(): void {
    const known = new Map(this.seen!().map((each) => [each.slice(0, each.lastIndexOf(":")), Number(each.slice(each.lastIndexOf(":") + 1))]));
    for (const [name, values] of Object.entries(this.points)) {
      values.slice(known.get(name) ?? 0).forEach((v, at) => this.log({ n: name, v, t: 0, i: (known.get(name) ?? 0) + at }));
    }
  }

  log(line: MetricLine): void {
    this.send!(line);
  }
}

describe("SeriesStore", () => {
  it("loads series that are asked for at the same time together, and continues them", async () => {
    const server = new Server();
    server.points = { loss: [3, 2], accuracy: [0.1, 0.2] };
    const store = new SeriesStore(server, () => undefined);
    store.follow({ loss: 2, accuracy: 2 });
    store.need("loss");
    store.need("accuracy");
    await pause();
    expect(server.requests).toEqual([["loss", "accuracy"]]);
    server.points.loss!.push(1);
    server.connect();
    server.connect();
    expect(store.get("loss")!.points.map(([, , , value]) => value)).toEqual([3, 2, 1]);
  });

  it("neither loses nor repeats points that come while a series is loaded", async () => {
    const server = new Server();
    server.points = { loss: [3, 2] };
    const store = new SeriesStore(server, () => undefined);
    store.follow({ loss: 2 });
    store.need("loss");
    server.points.loss!.push(1);
    server.connect();
    await pause();
    server.points.loss!.push(0);
    server.connect();
    expect(store.get("loss")!.points.map(([index]) => index)).toEqual([0, 1, 2, 3]);
  });

  it("begins a series again that a later attempt logs again", async () => {
    const server = new Server();
    server.points = { loss: [3, 2, 1] };
    const store = new SeriesStore(server, () => undefined);
    store.follow({ loss: 3 });
    store.need("loss");
    await pause();
    [9, 8].forEach((v, i) => server.log({ n: "loss", v, t: 0, i }));
    expect(store.get("loss")!.points.map(([, , , value]) => value)).toEqual([9, 8]);
  });

  it("says that there is a new metric", () => {
    const server = new Server();
    const found: number[] = [];
    const store = new SeriesStore(server, () => found.push(1));
    store.follow({});
    server.points = { loss: [1] };
    server.connect();
    expect(found).toHaveLength(1);
  });
});

describe("zoom", () => {
  const coarse = [0, 100, 200, 300, 400].map((index) => [index, index, 0, 1]);

  it("asks for the indexes around what is shown", () => {
    expect(indexRange(coarse, [0, 100, 200, 300, 400], [150, 250])).toEqual([100, 300]);
    expect(indexRange(coarse, [0, 100, 200, 300, 400], [120, 130])).toBeNull();
  });

  it("puts fine points in place of coarse ones", () => {
    const fine = [100, 150, 200, 250, 300].map((index) => [index, index, 0, 2]);
    expect(refine(coarse, fine).map(([index]) => index)).toEqual([0, 100, 150, 200, 250, 300, 400]);
    expect(refine(coarse, [])).toBe(coarse);
  });
});

describe("metrics", () => {
  const series = (kind: string, count: number, v: unknown = 1) => ({ kind, count, values: [{ v, t: 0 }] });

  it("are grouped by their prefix and filtered by name", () => {
    const metrics = { loss: series("scalar", 2), "val/loss": series("scalar", 2), "val/accuracy": series("scalar", 2) };
    expect(groupMetrics(metrics, "").map(({ prefix, metrics: found }) => [prefix, found.length])).toEqual([["", 1], ["val", 2]]);
    expect(groupMetrics(metrics, "/^val.*ss$/").flatMap(({ metrics: found }) => found.map(({ name }) => name))).toEqual(["val/loss"]);
    expect(matcherOf("/(/")("anything")).toBe(false);
  });

  it("have the shape of what was logged", () => {
    expect([series("scalar", 1), series("scalar", 9), series("scalar", 9, "text"), series("table", 1)].map(shapeOf)).toEqual(["value", "chart", "display", "display"]);
  });

  it("have columns of rows of different keys", () => {
    expect(columnsOf([{ a: 1 }, { b: [2, 3] }])).toEqual([
      { name: "a", values: [1, null, null] },
      { name: "b", values: [null, 2, 3] },
    ]);
  });

  it("name the file of an image", () => {
    expect(imageFile("aml://artifactId/ExperimentRun/dcid.run_1/a b/x_1.png")).toBe("a b/x_1.png");
    expect(imageFile("javascript:alert(1)")).toBeNull();
  });

  it("are CSV with quotes where they are needed", () => {
    expect(csvOf([{ t: 0, v: 1.5 }, { s: 7, t: 1, v: 'a "b", c' }])).toBe(
      'step,time,value\n0,1970-01-01T00:00:00.000Z,1.5\n7,1970-01-01T00:00:01.000Z,"a ""b"", c"\n',
    );
  });
});

describe("documents", () => {
  it("are read in the form of Azure, and refused in others", () => {
    const data = { class_labels: ["a", "b"], matrix: [[1, 2], [3, 4]] };
    expect(matrixOf({ schema_type: "confusion_matrix", data })).toEqual({ labels: ["a", "b"], matrix: [[1, 2], [3, 4]] });
    expect(matrixOf({ data: { matrix: [[1, 2]] } })).toBeNull();
    expect(matrixOf("text")).toBeNull();
    expect(histogramOf({ data: { bin_edges: [0, 1, 2], bin_counts: [5, 6] } })).toEqual([{ from: 0, to: 1, count: 5 }, { from: 1, to: 2, count: 6 }]);
  });

  it("give curves and the area below", () => {
    const perfect = [[10, 10, 0, 0], [10, 0, 10, 0], [0, 0, 10, 10]];
    const [curve] = curvesOf({ data: { probability_tables: [perfect], class_labels: ["cat"] } })!;
    expect([curve!.label, curve!.area, curve!.precision.y]).toEqual(["cat", 1, [0.5, 1, 1]]);
  });
});
