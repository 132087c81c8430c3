/** The attempts of a run, each with its end and its reason. */
import { Anchor, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { RunDetails } from "@/api/queries";
import type { Schemas } from "@/api/client";
import { Ago, Duration } from "@/components/time";

import { MAIN_LOG } from "../logs/log-names";
import classes from "../run.module.css";

type Attempt = Schemas["AttemptView"];

export function AttemptsTab({ run }: { run: RunDetails }) {
  const attempts: Attempt[] = run.attempts ?? [
    { number: 1, started_at: run.started_at ?? run.created_at, ended_at: run.ended_at, reason: run.reason, exit_code: run.exit_code, signal: run.signal },
  ];
  return (
    <>
      <div className={classes.scroll} tabIndex={0} role="region" aria-label="Attempts">
        <Table highlightOnHover aria-label="Attempts">
          <Table.Thead>
            <Table.Tr>
              {["Attempt", "Began", "Took", "Ended by", "Exit code", "Log"].map((name) => (
                <Table.Th key={name}>{name}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {[...attempts].reverse().map((attempt) => (
              <Row key={attempt.number} run={run} attempt={attempt} isLast={attempt.number === run.attempt} />
            ))}
          </Table.Tbody>
        </Table>
      </div>
      <Text size="xs" c="dimmed" mt="sm">
        {run.attempt === 1
          ? "A run needs one attempt as a rule. It is queued again after an eviction, and after other ends if it was submitted with retries."
          : "Each attempt begins with the same source, and with the outputs of the one before."}
      </Text>
    </>
  );
}

function Row({ run, attempt, isLast }: { run: RunDetails; attempt: Attempt; isLast: boolean }) {
  const { number, started_at, ended_at, reason, exit_code, signal } = attempt;
  const path = isLast ? MAIN_LOG : `attempts/${number}/${MAIN_LOG}`;
  const hasLog = run.log_files.includes(path);
  return (
    <Table.Tr>
      <Table.Td>{number}</Table.Td>
      <Table.Td>
        <Ago time={started_at} />
      </Table.Td>
      <Table.Td>
        <Duration start={started_at} end={ended_at} />
      </Table.Td>
      <Table.Td>{ended_at ? (reason ?? "").replaceAll("_", " ") || "–" : "it goes on"}</Table.Td>
      <Table.Td>{exit_code ?? (signal ? `signal ${signal}` : "–")}</Table.Td>
      <Table.Td>
        {hasLog ? (
          <Anchor component={Link} to="." search={((before: object) => ({ ...before, tab: "logs", file: path })) as never} size="sm">
            Open
          </Anchor>
        ) : (
          "–"
        )}
      </Table.Td>
    </Table.Tr>
  );
}
