/** A page with one table: loading, error and empty states, and a field that filters the rows. */
import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import type { ColumnDef, SortingState } from "@tanstack/react-table";
import { type ReactNode, useState } from "react";

import { DataTable } from "./data-table";
import { Page, Section } from "./page";
import { Failure, Loading } from "./states";

type Props<Row> = {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  rows: Row[] | undefined;
  error: unknown;
  retry: () => void;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  columns: ColumnDef<Row, any>[];
  sort?: SortingState;
  empty: ReactNode;
  children?: ReactNode;
};

const FILTERED_FROM = 8; // rows

export function ListPage<Row>(props: Props<Row>) {
  const { title, description, actions, rows, error, retry, columns, sort, empty, children } = props;
  const [filter, setFilter] = useState("");
  return (
    <Page title={title} description={description} actions={actions}>
      {error ? (
        <Failure error={error} retry={retry} />
      ) : (
        <>
          {rows && rows.length >= FILTERED_FROM && (
            <TextInput
              aria-label={`Filter ${title.toLowerCase()}`}
              placeholder="Filter"
              leftSection={<IconSearch size={15} />}
              value={filter}
              onChange={(event) => setFilter(event.currentTarget.value)}
              maw={320}
              mb="sm"
            />
          )}
          <Section>
            {rows ? (
              <DataTable rows={rows} columns={columns} label={title} filter={filter} sort={sort} empty={empty} />
            ) : (
              <Loading />
            )}
          </Section>
        </>
      )}
      {children}
    </Page>
  );
}
