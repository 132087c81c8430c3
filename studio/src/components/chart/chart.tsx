/**
 * A chart of lines, drawn on a canvas by uPlot. Any number of points is fluid: only the lowest and highest of each
 * pixel column are drawn. The summary and the table say the same to those who do not see the canvas.
 */
import "uplot/dist/uPlot.min.css";

import { ActionIcon, Table, Tooltip, UnstyledButton, useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef, useUncontrolled } from "@mantine/hooks";
import { IconTable, IconZoomReset } from "@tabler/icons-react";
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";

import { number, plural } from "@/lib/format";
import classes from "./chart.module.css";
import { makePlot, xText } from "./plot";
import { align, type ChartSeries, type Extent, extentOf, nearest, smooth, summaryOf, thin, type XKind } from "./series";

export type ChartProps = {
  /** What the chart shows, for example the name of a metric. */
  title: string;
  series: ChartSeries[];
  kind?: XKind;
  isLog?: boolean;
  /** From 0 (none) to below 1. */
  smoothing?: number;
  height?: number;
  /** The part of x that is shown; null shows everything. Without it the chart keeps its own. */
  range?: Extent | null;
  /** Called when a part is chosen by dragging or keys, with null for everything: fetch finer points of it then. */
  onRange?: (range: Extent | null) => void;
  /** Charts with the same name share their cursor. */
  sync?: string;
  hasLegend?: boolean;
  /** Further buttons beside the title. */
  actions?: ReactNode;
  /** What stands in place of an empty chart. */
  empty?: string;
};

type Line = ChartSeries & { isFaint: boolean };

export function Chart(props: ChartProps) {
  const { title, series, kind = "step", isLog = false, smoothing = 0, height = 220, hasLegend = series.length > 1 } = props;
  const [range, setRange] = useUncontrolled<Extent | null>({ value: props.range, defaultValue: null, finalValue: null, onChange: props.onRange });
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [isTable, setTable] = useState(false);
  const { shown, lines, left } = useLines(series, hidden, isLog, smoothing);
  const whole = useMemo(() => extentOf(shown), [shown]);
  const isEmpty = whole === null;
  function toggle(name: string) {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  }
  return (
    <figure className={classes.chart} aria-label={title}>
      <div className={classes.head}>
        <h3 className={classes.title} title={title}>
          {title}
        </h3>
        {props.actions}
        {range && <Tool label="Show everything" icon={IconZoomReset} onClick={() => setRange(null)} />}
        {!isEmpty && <Tool label="Show the values as a table" icon={IconTable} isPressed={isTable} onClick={() => setTable(!isTable)} />}
      </div>
      {isEmpty ? (
        <div className={classes.empty} style={{ height }}>
          {props.empty ?? "No values yet."}
        </div>
      ) : (
        <Plot {...{ title, lines, kind, isLog, height, setRange, whole }} range={range} sync={props.sync} />
      )}
      {left > 0 && <div className={classes.note}>{plural(left, "value")} of zero or below cannot be shown on a log scale.</div>}
      {hasLegend && <Legend series={series} hidden={hidden} toggle={toggle} />}
      <figcaption className="hidden-text">{summaryText(shown, kind)}</figcaption>
      {isTable && <Values series={shown} kind={kind} title={title} />}
    </figure>
  );
}

type ToolProps = { label: string; icon: typeof IconTable; onClick: () => void; isPressed?: boolean };

function Tool({ label, icon: Icon, onClick, isPressed }: ToolProps) {
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" aria-label={label} aria-pressed={isPressed} onClick={onClick}>
        <Icon size={15} />
      </ActionIcon>
    </Tooltip>
  );
}

/** The lines to draw: smoothed, with the unsmoothed ones faint behind them, and without what a log scale cannot show. */
function useLines(series: ChartSeries[], hidden: ReadonlySet<string>, isLog: boolean, smoothing: number) {
  return useMemo(() => {
    let left = 0;
    const shown = series
      .filter(({ name }) => !hidden.has(name))
      .map((each) => {
        if (!isLog) return each;
        const y = Array.from(each.y, (value) => (value !== null && value <= 0 ? (left++, null) : value));
        return { ...each, y };
      });
    const plain = shown.map((each): Line => ({ ...each, isFaint: smoothing > 0 }));
    const smoothed = smoothing > 0 ? shown.map((each): Line => ({ ...each, y: smooth(each.x, each.y, smoothing), isFaint: false })) : [];
    return { shown, lines: [...plain, ...smoothed], left };
  }, [series, hidden, isLog, smoothing]);
}

type PlotProps = {
  title: string;
  lines: Line[];
  kind: XKind;
  isLog: boolean;
  height: number;
  whole: Extent;
  range: Extent | null;
  setRange: (range: Extent | null) => void;
  sync?: string;
};

function Plot({ title, lines, kind, isLog, height, whole, range, setRange, sync }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const { ref: measured, width } = useElementSize<HTMLDivElement>();
  const ref = useMergedRef(box, measured);
  const theme = useComputedColorScheme("light");
  const plot = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<{ x: number; left: number } | null>(null);
  const view = range ?? padded(whole);
  const data = useMemo(
    () => align(lines.map(({ x, y }) => thin(x, y, view[0], view[1], Math.max(width, 100)))),
    [lines, view[0], view[1], width], // eslint-disable-line react-hooks/exhaustive-deps
  );
  const now = useRef({ view, data, setRange });
  now.current = { view, data, setRange };
  const look = lines.map(({ name, color, dash, isFaint }) => [name, color, dash, isFaint].join()).join("\n");
  const isMeasured = width > 0;

  useEffect(() => {
    const element = box.current;
    if (!element || !isMeasured) return;
    const made = makePlot(
      {
        element,
        width: element.clientWidth,
        height,
        kind,
        isLog,
        lines,
        sync,
        view: () => now.current.view,
        onSelect: (chosen) => now.current.setRange(chosen),
        onReset: () => now.current.setRange(null),
        onCursor: (x, left) => setCursor(x === null ? null : { x, left }),
      },
      now.current.data as uPlot.AlignedData,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [look, theme, kind, isLog, height, sync, isMeasured]); // eslint-disable-line react-hooks/exhaustive-deps

  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);
  useEffect(() => {
    if (width && plot.current?.width !== width) plot.current?.setSize({ width, height });
  }, [width, height]);

  function onKey(event: KeyboardEvent) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const [low, high] = view;
    if (step) {
      const x = data[0];
      const at = cursor ? nearest(x, cursor.x) + step : step > 0 ? 0 : x.length - 1;
      const next = x[Math.min(Math.max(at, 0), x.length - 1)]!;
      plot.current?.setCursor({ left: plot.current.valToPos(next, "x"), top: height / 2 });
    } else if (event.key === "+" || event.key === "-") {
      const middle = cursor?.x ?? (low + high) / 2;
      const half = ((high - low) / 2) * (event.key === "+" ? 0.5 : 2);
      const zoomed: Extent = [Math.max(middle - half, whole[0]), Math.min(middle + half, whole[1])];
      setRange(event.key === "-" && 2 * half >= whole[1] - whole[0] ? null : zoomed);
    } else if (event.key === "0") setRange(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  return (
    <div
      ref={ref}
      className={classes.plot}
      style={{ height }}
      role="group"
      aria-label={`${title}: left and right read the values, plus and minus zoom, 0 shows everything`}
      tabIndex={0}
      onKeyDown={onKey}
      onBlur={() => plot.current?.setCursor({ left: -10, top: -10 })}
    >
      {cursor && <Tip {...cursor} lines={lines} kind={kind} width={width} />}
    </div>
  );
}

/** The values at the cursor. */
function Tip({ x, left, lines, kind, width }: { x: number; left: number; lines: Line[]; kind: XKind; width: number }) {
  const values = lines
    .filter(({ isFaint }) => !isFaint || lines.every((line) => line.isFaint))
    .flatMap((line) => {
      const at = nearest(line.x, x);
      const value = at < 0 ? null : line.y[at]!;
      return value === null ? [] : [{ ...line, value, at: line.x[at]! }];
    })
    .sort((a, b) => b.value - a.value);
  if (!values.length) return null;
  const isRight = left < width / 2;
  const near = values.reduce((best, each) => (Math.abs(each.at - x) < Math.abs(best.at - x) ? each : best));
  return (
    <div className={classes.tip} style={isRight ? { left: left + 14 } : { right: width - left + 14 }} role="status">
      <div className={classes.tipX}>
        {kind === "step" ? "Step " : ""}
        {xText(near.at, kind)}
      </div>
      <ul>
        {values.map(({ name, color, dash, value }) => (
          <li key={name}>
            <Mark color={color} isDashed={dash !== undefined} />
            <span className={classes.name}>{name}</span>
            <span className={classes.value}>{number(value)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A short piece of a line in its colour, as legends show it. */
export function Mark({ color, isDashed }: { color: string; isDashed: boolean }) {
  return <span className={classes.mark} style={{ borderTopColor: color }} data-dashed={isDashed || undefined} aria-hidden />;
}

type LegendProps = { series: ChartSeries[]; hidden: ReadonlySet<string>; toggle: (name: string) => void };

function Legend({ series, hidden, toggle }: LegendProps) {
  return (
    <ul className={classes.legend} aria-label="Lines">
      {series.map(({ name, color, dash }) => (
        <li key={name}>
          <UnstyledButton fz="xs" aria-pressed={!hidden.has(name)} onClick={() => toggle(name)}>
            <Mark color={color} isDashed={dash !== undefined} />
            {name}
          </UnstyledButton>
        </li>
      ))}
    </ul>
  );
}

const TABLE_ROWS = 50;

/** The values of the series in a table, thinned to what can be read. */
function Values({ series, kind, title }: { series: ChartSeries[]; kind: XKind; title: string }) {
  const whole = extentOf(series);
  const [x, ...ys] = whole ? align(series.map((each) => thin(each.x, each.y, whole[0], whole[1], TABLE_ROWS / 2))) : [[]];
  return (
    <div className={classes.values} tabIndex={0} role="region" aria-label={`Values of ${title}`}>
      <Table fz="xs" verticalSpacing={3}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{{ step: "Step", elapsed: "After", time: "Time" }[kind]}</Table.Th>
            {series.map(({ name }) => (
              <Table.Th key={name}>{name}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {x.map((at, row) => (
            <Table.Tr key={row}>
              <Table.Td>{xText(at, kind)}</Table.Td>
              {ys.map((y, column) => (
                <Table.Td key={column}>{y[row] === undefined ? "" : number(y[row])}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function summaryText(series: ChartSeries[], kind: XKind): string {
  const texts = series.map(({ name, x, y }) => {
    const found = summaryOf(x, y);
    if (!found) return `${name} has no values.`;
    const { count, last, min, minAt, max, maxAt } = found;
    return `${name}: ${plural(count, "value")}, last ${number(last)}, lowest ${number(min)} at ${xText(minAt, kind)}, highest ${number(max)} at ${xText(maxAt, kind)}.`;
  });
  return texts.join(" ");
}

/** A single x gets some room around it. */
function padded([min, max]: Extent): Extent {
  return min === max ? [min - 0.5, max + 0.5] : [min, max];
}
