"""Forms."""

from django import forms

from monitor.models import Channel


class ChannelForm(forms.ModelForm):
    """Add a channel."""

    class Meta:
        model = Channel
        fields = ["name", "url"]
