/** What is logged besides numbers: lists, rows, tables, images, and the documents that Azure's charts are made of. */
import { Group, SegmentedControl, Slider, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Chart } from "@/components/chart/chart";
import { seriesColor, seriesDash } from "@/components/chart/colors";
import { sorted } from "@/components/chart/series";
import { Failure, Loading } from "@/components/states";
import { number, plural } from "@/lib/format";

import { JsonTree } from "../files/json-tree";
import { Picture } from "../files/preview";
import { imageTypeOf } from "../files/preview-kind";
import { filePath, metricValues } from "../queries";
import { curvesOf, histogramOf, matrixOf, predictionsOf } from "./documents";
import { columnsOf, imageFile, type Metric } from "./groups";
import classes from "./metrics.module.css";

type Of = { workspace: string; id: string };
type Values = { v: unknown; t: number; s?: number }[];

/** A metric that is no series of numbers. */
export function Display({ of, metric: { name, series } }: { of: Of; metric: Metric }) {
  const { data, error, refetch } = useQuery(metricValues(of, name, series.count));
  return (
    <section className={classes.display} aria-label={name} data-wide={isWide(series.kind) || undefined}>
      <Group justify="space-between" gap="xs" className={classes.displayHead}>
        <h3 className={classes.name}>{name}</h3>
        <Text size="xs" c="dimmed">
          {series.description || `${series.kind.replaceAll("_", " ")}${series.count > 1 ? `, ${plural(series.count, "time")}` : ""}`}
        </Text>
      </Group>
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading rows={4} />
      ) : (
        <Body of={of} kind={series.kind} values={data} name={name} />
      )}
    </section>
  );
}

const isWide = (kind: string) => kind === "row" || kind === "table" || kind === "accuracy_table";

function Body({ of, kind, values, name }: { of: Of; kind: string; values: Values; name: string }) {
  if (kind === "image") return <Images of={of} values={values} name={name} />;
  if (kind === "row" || kind === "table") return <Columns logged={values.map(({ v }) => v)} name={name} />;
  if (kind === "list") return <List values={values.flatMap(({ v }) => (Array.isArray(v) ? v : [v]))} name={name} />;
  const last = values.at(-1)?.v;
  if (kind === "confusion_matrix") return <ConfusionMatrix value={last} name={name} />;
  if (kind === "accuracy_table") return <AccuracyTable value={last} name={name} />;
  if (kind === "residuals") return <Residuals value={last} name={name} />;
  if (kind === "predictions") return <Predictions value={last} name={name} />;
  return <List values={values.map(({ v }) => v)} name={name} />;
}

function Document({ value }: { value: unknown }) {
  return (
    <div className={classes.document}>
      <JsonTree value={value} />
    </div>
  );
}

const MOST_ROWS = 200;

function List({ values, name }: { values: unknown[]; name: string }) {
  const isNumeric = values.length > 2 && values.every((value) => typeof value === "number");
  if (isNumeric) {
    const points = { x: values.map((_, index) => index), y: values as number[] };
    return <Chart title={`Values of ${name}`} series={[{ name, ...points, color: seriesColor(0) }]} height={170} />;
  }
  return (
    <ol className={classes.list} tabIndex={0} aria-label={`Values of ${name}`}>
      {values.slice(0, MOST_ROWS).map((value, index) => (
        <li key={index}>{shown(value)}</li>
      ))}
      {values.length > MOST_ROWS && <li>… {plural(values.length - MOST_ROWS, "more value")}</li>}
    </ol>
  );
}

const shown = (value: unknown): string =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : number(value);

function Columns({ logged, name }: { logged: unknown[]; name: string }) {
  const columns = columnsOf(logged);
  const height = columns[0]?.values.length ?? 0;
  const numeric = columns.filter(({ values }) => values.every((value) => typeof value === "number" || value === null));
  const [isChart, setChart] = useState(false);
  const canChart = height > 2 && numeric.length > 0;
  return (
    <>
      {canChart && (
        <SegmentedControl
          size="xs"
          mb={6}
          aria-label={`How ${name} is shown`}
          value={isChart ? "chart" : "table"}
          onChange={(which) => setChart(which === "chart")}
          data={[
            { value: "table", label: "Table" },
            { value: "chart", label: "Chart" },
          ]}
        />
      )}
      {isChart && canChart ? (
        <Chart
          title={`Columns of ${name}`}
          height={220}
          series={numeric.map(({ name: column, values }, index) => ({
            name: column,
            x: values.map((_, row) => row),
            y: values as (number | null)[],
            color: seriesColor(index),
            dash: seriesDash(index),
          }))}
        />
      ) : (
        <div className={classes.tableScroll} tabIndex={0} role="region" aria-label={`Rows of ${name}`}>
          <Table fz="xs" verticalSpacing={4} stickyHeader>
            <Table.Thead>
              <Table.Tr>
                {columns.map(({ name: column }) => (
                  <Table.Th key={column}>{column}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {Array.from({ length: Math.min(height, MOST_ROWS) }, (_, row) => (
                <Table.Tr key={row}>
                  {columns.map(({ name: column, values }) => (
                    <Table.Td key={column}>{shown(values[row])}</Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {height > MOST_ROWS && (
            <Text size="xs" c="dimmed" p="xs">
              The first {MOST_ROWS} of {plural(height, "row")} are shown.
            </Text>
          )}
        </div>
      )}
    </>
  );
}

function Images({ of, values, name }: { of: Of; values: Values; name: string }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const index = Math.min(chosen ?? values.length - 1, values.length - 1);
  const file = imageFile(values[index]?.v);
  if (!file) return <List values={values.map(({ v }) => v)} name={name} />;
  const type = imageTypeOf(file);
  return (
    <>
      {type ? (
        <Picture key={file} address={filePath(of, file)} type={type} alt={`${name}, picture ${index + 1}`} />
      ) : (
        <Text size="sm" c="dimmed">
          {file}: browsers show no pictures of this format.
        </Text>
      )}
      {values.length > 1 && (
        <Slider
          mt="xs"
          size="sm"
          min={0}
          max={values.length - 1}
          value={index}
          onChange={setChosen}
          thumbLabel={`Which picture of ${name}`}
          label={(at) => `${at + 1} of ${values.length}`}
        />
      )}
    </>
  );
}

function ConfusionMatrix({ value, name }: { value: unknown; name: string }) {
  const [isShare, setShare] = useState(false);
  const found = matrixOf(value);
  if (!found) return <Document value={value} />;
  const { labels, matrix } = found;
  const sums = matrix.map((row) => row.reduce((sum, each) => sum + each, 0) || 1);
  return (
    <>
      <SegmentedControl
        size="xs"
        mb={6}
        aria-label={`Numbers of ${name}`}
        value={isShare ? "share" : "count"}
        onChange={(which) => setShare(which === "share")}
        data={[
          { value: "count", label: "Counts" },
          { value: "share", label: "Shares of a row" },
        ]}
      />
      <div className={classes.tableScroll} tabIndex={0} role="region" aria-label={`Confusion matrix ${name}`}>
        <table className={classes.matrix}>
          <caption>Rows: true class. Columns: predicted class.</caption>
          <thead>
            <tr>
              <td />
              {labels.map((label, index) => (
                <th key={index} scope="col">
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {matrix.map((row, index) => (
              <tr key={index}>
                <th scope="row">{labels[index]}</th>
                {row.map((count, column) => {
                  const share = count / sums[index]!;
                  return (
                    <td key={column} data-strong={share > 0.5 || undefined} style={{ "--share": `${Math.round(share * 100)}%` } as object}>
                      {isShare ? `${(share * 100).toFixed(1)} %` : number(count)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function AccuracyTable({ value, name }: { value: unknown; name: string }) {
  const curves = curvesOf(value);
  if (!curves) return <Document value={value} />;
  const lines = (which: "roc" | "precision") =>
    curves.map((curve, index) => ({
      name: `${curve.label} (area ${number(curve.area)})`,
      ...sorted(curve[which]),
      color: seriesColor(index),
      dash: seriesDash(index),
    }));
  return (
    <div className={classes.two}>
      <Chart title={`${name}: true positives (y) by false positives (x)`} series={lines("roc")} height={230} hasLegend />
      <Chart title={`${name}: precision (y) by recall (x)`} series={lines("precision")} height={230} hasLegend />
    </div>
  );
}

function Residuals({ value, name }: { value: unknown; name: string }) {
  const bins = histogramOf(value);
  if (!bins) return <Document value={value} />;
  const most = Math.max(...bins.map(({ count }) => count), 1);
  return (
    <div className={classes.tableScroll} tabIndex={0} role="region" aria-label={`Residuals ${name}`}>
      <table className={classes.histogram}>
        <caption>How many predictions were off by how much.</caption>
        <tbody>
          {bins.map(({ from, to, count }, index) => (
            <tr key={index}>
              <th scope="row">
                {number(from)} to {number(to)}
              </th>
              <td>
                <span className={classes.barOf} style={{ width: `${(count / most) * 100}%` }} aria-hidden />
              </td>
              <td>{number(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Predictions({ value, name }: { value: unknown; name: string }) {
  const found = predictionsOf(value);
  if (!found) return <Document value={value} />;
  return (
    <Chart
      title={`${name}: predicted (y) by true value (x)`}
      height={230}
      series={[
        { name: "predicted", x: found.x, y: found.y, color: seriesColor(0) },
        { name: "ideal", x: found.x, y: found.x, color: seriesColor(6), dash: [5, 4] },
      ]}
    />
  );
}
