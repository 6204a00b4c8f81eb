// An OpenTelemetry Collector with Kafka, for the tests of otel_replay: the Kafka parts are served at another release.
//
// It holds what the files in collector-config/ use and nothing else. Nothing in it is changed.
package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	info := component.BuildInfo{Command: "otelcol-kafka", Description: "Collector for tests", Version: "0.1.0"}
	settings := otelcol.CollectorSettings{
		BuildInfo: info,
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{
					envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
				},
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatalf("collector: %v", err)
	}
}

func factories() (otelcol.Factories, error) {
	result := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	if result.Receivers, err = otelcol.MakeFactoryMap(otlpreceiver.NewFactory(), kafkareceiver.NewFactory()); err != nil {
		return result, err
	}
	if result.Processors, err = otelcol.MakeFactoryMap(
		memorylimiterprocessor.NewFactory()); err != nil {
		return result, err
	}
	if result.Exporters, err = otelcol.MakeFactoryMap(
		otlpexporter.NewFactory(), kafkaexporter.NewFactory()); err != nil {
		return result, err
	}
	result.Extensions, err = otelcol.MakeFactoryMap(
		filestorage.NewFactory(), healthcheckextension.NewFactory(),
	)
	return result, err
}
