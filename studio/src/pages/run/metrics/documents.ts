/** Reads the documents that Azure's charts are made of. What has another form is shown as it is. */
import type { Points } from "@/components/chart/series";

type Json = Record<string, unknown>;

function dataOf(value: unknown): Json | null {
  const document = typeof value === "object" && value !== null ? (value as Json) : {};
  const data = "data" in document ? document.data : document;
  return typeof data === "object" && data !== null ? (data as Json) : null;
}

const isNumbers = (value: unknown): value is number[] => Array.isArray(value) && value.every((each) => typeof each === "number");

export function matrixOf(value: unknown): { labels: string[]; matrix: number[][] } | null {
  const data = dataOf(value);
  const { matrix, class_labels: labels } = data ?? {};
  if (!Array.isArray(matrix) || !matrix.length || !matrix.every(isNumbers)) return null;
  if (!matrix.every((row) => row.length === matrix.length)) return null;
  const names = Array.isArray(labels) && labels.length === matrix.length ? labels.map(String) : matrix.map((_, index) => String(index));
  return { labels: names, matrix };
}

export type Curve = { label: string; roc: Points; precision: Points; area: number };

/** Curves of each class from tables of [true positives, false positives, true negatives, false negatives] by threshold. */
export function curvesOf(value: unknown): Curve[] | null {
  const data = dataOf(value);
  const tables = data?.probability_tables;
  if (!Array.isArray(tables) || !tables.length) return null;
  const labels = Array.isArray(data?.class_labels) ? data.class_labels.map(String) : [];
  const curves: Curve[] = [];
  for (const [index, table] of tables.entries()) {
    if (!Array.isArray(table) || !table.every((row) => isNumbers(row) && row.length >= 4)) return null;
    const roc: Points = { x: [], y: [] };
    const precision: Points = { x: [], y: [] };
    for (const [truePositives, falsePositives, trueNegatives, falseNegatives] of table as number[][]) {
      const recall = ratio(truePositives!, falseNegatives!);
      roc.x.push(ratio(falsePositives!, trueNegatives!));
      roc.y.push(recall);
      precision.x.push(recall);
      precision.y.push(truePositives! + falsePositives! ? ratio(truePositives!, falsePositives!) : 1);
    }
    curves.push({ label: labels[index] ?? String(index), roc, precision, area: areaUnder(roc) });
  }
  return curves;
}

const ratio = (part: number, rest: number) => (part + rest ? part / (part + rest) : 0);

function areaUnder({ x, y }: Points): number {
  const order = x.map((_, at) => at).sort((a, b) => x[a]! - x[b]! || y[a]! - y[b]!);
  let area = 0;
  for (let at = 1; at < order.length; at++) {
    const [before, here] = [order[at - 1]!, order[at]!];
    area += ((x[here]! - x[before]!) * (y[here]! + y[before]!)) / 2;
  }
  return area;
}

export function histogramOf(value: unknown): { from: number; to: number; count: number }[] | null {
  const data = dataOf(value);
  const { bin_edges: edges, bin_counts: counts } = data ?? {};
  if (!isNumbers(edges) || !isNumbers(counts) || edges.length !== counts.length + 1 || !counts.length) return null;
  return counts.map((count, index) => ({ from: edges[index]!, to: edges[index + 1]!, count }));
}

export function predictionsOf(value: unknown): { x: number[]; y: number[] } | null {
  const data = dataOf(value);
  const { bin_edges: edges, bin_averages: averages } = data ?? {};
  if (!isNumbers(averages) || !averages.length || !isNumbers(edges) || edges.length < averages.length) return null;
  const middles = averages.map((_, index) => (edges.length > averages.length ? (edges[index]! + edges[index + 1]!) / 2 : edges[index]!));
  return { x: middles, y: averages };
}
