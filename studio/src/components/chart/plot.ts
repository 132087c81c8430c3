/** The options of uPlot: axes, grid and lines in the colours of the theme. */
import uPlot from "uplot";

import { duration, number } from "@/lib/format";
import type { ChartSeries, Extent, XKind } from "./series";

type Options = {
  element: HTMLElement;
  width: number;
  height: number;
  kind: XKind;
  isLog: boolean;
  /** The lines, in the order of the data. A faint one is the unsmoothed twin of the next. */
  lines: (ChartSeries & { isFaint: boolean })[];
  /** Charts with the same name share their cursor. */
  sync?: string;
  /** The part of x that is shown, asked for at each drawing. */
  view: () => Extent;
  onSelect: (range: Extent) => void;
  onReset: () => void;
  onCursor: (x: number | null, left: number) => void;
};

const FONT = "11px 'Inter Variable', system-ui, sans-serif";
const LEAST_DRAG = 6;

/** Charts share where the pointer is, but not what is zoomed: their ranges of x may have nothing in common. */
const isPointing = (type: string): boolean => type === "mousemove" || type === "mouseleave";

export function makePlot(options: Options, data: uPlot.AlignedData): uPlot {
  const { element, width, height, kind, isLog, lines, sync, view, onSelect, onReset, onCursor } = options;
  const color = (text: string) => resolve(element, text);
  const axis = {
    stroke: color("var(--mantine-color-dimmed)"),
    grid: { stroke: color("var(--studio-border)"), width: 1 },
    ticks: { show: false },
    font: FONT,
  };
  return new uPlot(
    {
      width,
      height,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: kind === "time", range: view },
        y: { distr: isLog ? 3 : 1 },
      },
      axes: [
        { ...axis, size: 30, gap: 6, ...(kind === "time" ? {} : { values: (_, splits) => splits.map((each) => xText(each, kind)) }) },
        { ...axis, size: 58, gap: 6, values: (_, splits) => splits.map((each) => (each === null ? "" : number(each))) },
      ],
      series: [
        {},
        ...lines.map(({ name, color: stroke, dash, isFaint }) => ({
          label: name,
          stroke: color(stroke),
          width: isFaint ? 1 : 1.6,
          alpha: isFaint ? 0.28 : 1,
          dash: isFaint ? undefined : dash,
          points: { size: 5, ...(isFaint ? { show: false } : {}) },
        })),
      ],
      cursor: {
        y: false,
        points: { size: 7 },
        drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG },
        bind: { dblclick: () => () => (onReset(), null) },
        ...(sync ? { sync: { key: sync, setSeries: false, scales: ["x", null], filters: { pub: isPointing } } } : {}),
      },
      hooks: {
        setSelect: [
          (plot) => {
            const { left, width: dragged } = plot.select;
            if (dragged < LEAST_DRAG) return;
            onSelect([plot.posToVal(left, "x"), plot.posToVal(left + dragged, "x")]);
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (plot) => {
            const left = plot.cursor.left ?? -1;
            onCursor(left < 0 ? null : plot.posToVal(left, "x"), left + plot.over.offsetLeft);
          },
        ],
      },
    },
    data,
    element,
  );
}

/** The value of a colour that is a variable of CSS: a canvas does not know those. */
function resolve(element: HTMLElement, color: string): string {
  const [, name] = /^var\((--[\w-]+)\)$/.exec(color) ?? [];
  return name ? getComputedStyle(element).getPropertyValue(name).trim() : color;
}

/** A value of the x axis as text. */
export function xText(value: number, kind: XKind): string {
  if (kind === "time") return new Date(value * 1000).toLocaleString();
  if (kind === "elapsed") return value && Math.abs(value) < 1 ? `${number(value)} s` : duration(value);
  return number(value);
}
